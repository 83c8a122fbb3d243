#include "server/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>
#include <iterator>
#include <memory>

#include "server/json_text.h"

namespace sprat::server {
namespace {

double Milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Standard output, given up for a line that its reader does not take in time: a write that blocks
// would keep the process from ending.
class OutputSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  void Hurry() { patience_ms_.store(0, std::memory_order_relaxed); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view left(line.data(), line.size());
    while (!left.empty()) {
      pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      if (poll(&output, 1, patience_ms_.load(std::memory_order_relaxed)) <= 0) return;
      // A pipe that polls as writable takes PIPE_BUF bytes at once (pipe(7)).
      const ssize_t n = write(STDOUT_FILENO, left.data(), std::min<size_t>(left.size(), PIPE_BUF));
      if (n <= 0) return;
      left.remove_prefix(static_cast<size_t>(n));
    }
  }
  void flush_() override {}

  std::atomic<int> patience_ms_{100};
};

const std::shared_ptr<OutputSink>& Output() {
  static const auto output = std::make_shared<OutputSink>();
  return output;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    constexpr size_t kQueuedLines{8192};
    spdlog::init_thread_pool(kQueuedLines, 1);
    auto made = std::make_shared<spdlog::async_logger>(
        "access", Output(), spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest);
    made->set_pattern("%v");
    return made;
  }();
  return *logger;
}

}  // namespace

std::string AccessLine(const Exchange& exchange, const Response& response,
                       SteadyClock::duration took, std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::string line = fmt::format("{{\"time\":\"{:%Y-%m-%dT%H:%M:%S}.{:03}Z\",\"request_id\":",
                                 fmt::gmtime(seconds), milliseconds);
  AppendJsonString(exchange.request_id, line);
  line += ",\"method\":";
  AppendJsonString(exchange.method, line);
  line += ",\"path\":";
  AppendJsonString(exchange.path, line);
  fmt::format_to(std::back_inserter(line),
                 ",\"status\":{},\"bytes\":{},\"texts\":{},\"tokens\":{},\"total_ms\":{:.3f},"
                 "\"queue_ms\":{:.3f},\"tokenization_ms\":{:.3f},\"inference_ms\":{:.3f}}}",
                 response.status, response.body.size(), exchange.texts, exchange.tokens,
                 Milliseconds(took), Milliseconds(exchange.times.queue),
                 Milliseconds(exchange.times.tokenization), Milliseconds(exchange.times.inference));
  return line;
}

void LogAccess(const Exchange& exchange, const Response& response, SteadyClock::duration took) {
  Logger().info(AccessLine(exchange, response, took, std::chrono::system_clock::now()));
}

void EndAccessLog() { Output()->Hurry(); }

}  // namespace sprat::server
