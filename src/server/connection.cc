#include "server/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace sprat::server {
namespace {

constexpr std::chrono::milliseconds kSweepPeriod{500};
// While draining: how often to look, and how long an idle connection may still bring a request that
// was on its way when the signal came.
constexpr std::chrono::milliseconds kDrainPeriod{20};
constexpr std::chrono::milliseconds kDrainGrace{250};

}  // namespace

void NetworkThread::Start() {
  asio::co_spawn(executor(), Sweep(), asio::detached);
  thread_ = std::thread([this] { context_.run(); });
}

void NetworkThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

Task<void> NetworkThread::Sweep() {
  while (true) {
    const bool draining = service_.draining();
    sweep_.expires_after(draining ? kDrainPeriod : kSweepPeriod);
    boost::system::error_code ignored;
    co_await sweep_.async_wait(asio::redirect_error(kAwait, ignored));
    const SteadyClock::time_point now = SteadyClock::now();
    for (Connection* const connection : connections_) {
      const bool leave =
          draining && connection->phase == Phase::kIdle && now - connection->since >= kDrainGrace;
      if (!leave && now < connection->deadline) continue;
      connection->expired = true;
      connection->socket.cancel(ignored);  // its coroutine sees it and goes on
    }
  }
}

}  // namespace sprat::server
