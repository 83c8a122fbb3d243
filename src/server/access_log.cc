#include "server/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <iterator>

#include "server/json_text.h"

namespace sprat::server {
namespace {

double Milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = spdlog::create_async_nb<spdlog::sinks::stdout_sink_mt>("access");
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

}  // namespace sprat::server
