// One request and its answer, between the connection that carries them and the route that serves.
#ifndef SPRAT_SERVER_EXCHANGE_H_
#define SPRAT_SERVER_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/api_error.h"
#include "server/event_loop.h"
#include "server/service.h"

namespace sprat::server {

struct Response {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string body = {};
  std::string headers = {};  // further lines, each with its CRLF
};

Response ErrorResponse(ApiStyle style, const ApiError& error);

// What the client sent and where its answer goes. Lives in its connection's coroutine, on the home
// thread; the pool for heavy work may use it while the coroutine waits for it.
struct Exchange {
  Service& service;
  Executor home;
  std::thread::id home_thread;
  Socket& socket;                    // of the connection, to see it close
  std::shared_ptr<void> connection;  // keeps the socket alive
  std::string method;
  std::string path;  // without the query
  std::string body;
  std::string request_id;
  SteadyClock::time_point received;  // the request's last byte
  HeldBytes held;                    // what body and answer take

  SubmitTimes times = {};
  size_t texts = 0;
  size_t tokens = 0;
  size_t truncated = 0;
  bool embedded = false;  // times are meaningful

  // The body as the parsers want it: with padding behind its end.
  std::string_view PaddedBody();
};

using Outcome = std::pair<Result<Embeddings>, SubmitTimes>;

// A request that the engine has.
struct Pending {
  const ServedModel* model = nullptr;
  Ticket ticket;
  std::shared_ptr<Delivery<Outcome>> delivery;
};

// Takes room for an answer beside the body, if the body is still there. What to say if there is
// none.
std::optional<ApiError> HoldAnswer(Exchange& exchange, size_t bytes);
// The same for vectors: of each value its f32 and its text, which has about 13 characters for
// values below 1.
std::optional<ApiError> HoldVectors(Exchange& exchange, const ServedModel& model, size_t rows,
                                    const EmbedOptions& options);
ApiError NothingLeftToHold(Service& service);  // which is counted

// Submits texts or token ids, and drops the body. Any thread. Requires room for the vectors.
Pending Submit(Exchange& exchange, const ServedModel& model, const TextInput& input,
               const EmbedOptions& options);

// Waits for the vectors. If the client goes away meanwhile, its request is cancelled.
Task<Result<Embeddings>> Await(Exchange& exchange, Pending pending);

// Calls `leave` on the home thread, once, if the client closes the connection or its sending side
// while this lives. Requests that it sent before that, behind this one, make no difference.
// To be made and ended on the home thread.
class PeerWatch {
 public:
  PeerWatch(Exchange& exchange, std::function<void()> leave);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

 private:
  struct State;
  // Shared with what waits on the loop, which is told of the end only later.
  const std::shared_ptr<State> state_;
};

// Runs a function that may take milliseconds on a pool, and waits for it.
template <typename Function>
Task<std::invoke_result_t<Function>> OnPool(Exchange& exchange, asio::thread_pool& pool,
                                            Function function) {
  using Value = std::invoke_result_t<Function>;
  const auto delivery = std::make_shared<Delivery<Value>>(exchange.home, exchange.home_thread);
  asio::post(pool, [delivery, &function] { delivery->Set(function()); });
  co_return co_await delivery->Take();
}

// The same on the pool for heavy work.
template <typename Function>
Task<std::invoke_result_t<Function>> OnPool(Exchange& exchange, Function function) {
  co_return co_await OnPool(exchange, *exchange.service.heavy, function);
}

// Bodies and answers from these sizes on go to the pool.
inline constexpr size_t kHeavyBodyBytes{32 << 10};
inline constexpr size_t kHeavyAnswerValues{64 << 10};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_EXCHANGE_H_
