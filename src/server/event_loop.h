// The coroutine types of the server: one event loop a network thread, never two threads in one.
#ifndef SPRAT_SERVER_EVENT_LOOP_H_
#define SPRAT_SERVER_EVENT_LOOP_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace sprat::server {

namespace asio = boost::asio;

using Executor = asio::io_context::executor_type;
template <typename T>
using Task = asio::awaitable<T, Executor>;
inline constexpr asio::use_awaitable_t<Executor> kAwait;

using SteadyClock = std::chrono::steady_clock;
using Timer = asio::basic_waitable_timer<SteadyClock, asio::wait_traits<SteadyClock>, Executor>;
// TCP and Unix sockets alike.
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;

// A value that any thread delivers to one coroutine of a loop. Shared by the two: whichever is last
// frees it.
template <typename T>
class Delivery : public std::enable_shared_from_this<Delivery<T>> {
 public:
  // home: where the coroutine runs; construct it on that loop's thread, or say which it is.
  Delivery(Executor home, std::thread::id home_thread) : home_(home), home_thread_(home_thread) {}

  // Any thread, once.
  void Set(T value) {
    if (std::this_thread::get_id() == home_thread_) return Store(std::move(value));
    asio::post(home_, [self = this->shared_from_this(), value = std::move(value)]() mutable {
      self->Store(std::move(value));
    });
  }

  // The home thread: whether Take need not wait.
  bool ready() const { return value_.has_value(); }

  // The home thread, once: waits until the value is there.
  Task<T> Take() {
    if (!ready()) {
      wake_.emplace(home_, Timer::time_point::max());
      boost::system::error_code ignored;
      co_await wake_->async_wait(asio::redirect_error(kAwait, ignored));
    }
    co_return std::move(*value_);
  }

 private:
  void Store(T value) {
    value_.emplace(std::move(value));
    if (wake_.has_value()) wake_->cancel();
  }

  Executor home_;
  std::thread::id home_thread_;
  std::optional<T> value_;     // touched by the home thread only, as is wake_
  std::optional<Timer> wake_;  // never expires; cancelled to wake the coroutine
};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_EVENT_LOOP_H_
