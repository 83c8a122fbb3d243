#include "server/exchange.h"

#include <poll.h>

#include <algorithm>

namespace sprat::server {
namespace {

// How often to look whether a client that has already sent more is still there: what it sent makes
// the socket readable for good.
constexpr std::chrono::milliseconds kLookPeriod{20};

// Whether the peer has closed the connection or its sending side, whatever is left to read: the
// next request, or TLS saying good-bye.
bool PeerIsGone(Socket& socket) {
  pollfd peer{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
  return poll(&peer, 1, 0) == 1 && (peer.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

struct PeerWatch::State : std::enable_shared_from_this<State> {
  explicit State(Exchange& exchange, std::function<void()> when_gone)
      : socket(exchange.socket),
        connection(exchange.connection),
        again(exchange.home),
        leave(std::move(when_gone)) {}

  void Look() {
    if (over || !socket.is_open()) return;
    if (PeerIsGone(socket)) return leave();
    again.expires_after(kLookPeriod);
    again.async_wait([self = shared_from_this()](auto) { self->Look(); });
  }

  Socket& socket;
  const std::shared_ptr<void> connection;  // has the socket
  Timer again;
  const std::function<void()> leave;
  bool over = false;
};

PeerWatch::PeerWatch(Exchange& exchange, std::function<void()> leave)
    : state_(std::make_shared<State>(exchange, std::move(leave))) {
  state_->socket.async_wait(Socket::wait_read, [state = state_](auto error) {
    if (!error) state->Look();
  });
}

PeerWatch::~PeerWatch() {
  state_->over = true;
  state_->again.cancel();
  boost::system::error_code ignored;
  state_->socket.cancel(ignored);
}

Response ErrorResponse(ApiStyle style, const ApiError& error) {
  Response response{.status = error.status, .body = ErrorBody(style, error)};
  if (error.status == 429 || error.status == 503) response.headers = "Retry-After: 1\r\n";
  if (error.status == 401) response.headers = "WWW-Authenticate: Bearer\r\n";
  return response;
}

std::string_view Exchange::PaddedBody() {
  const size_t size = body.size();
  body.reserve(size + kBodyPadding);
  return {body.data(), size};
}

ApiError NothingLeftToHold(Service& service) {
  service.metrics.not_held.fetch_add(1, std::memory_order_relaxed);
  return FromError(
      Error(ErrorCode::kOverloaded, "bodies and answers in flight leave too little of the " +
                                        std::to_string(service.held.limit()) +
                                        " bytes that there are for them"));
}

std::optional<ApiError> HoldAnswer(Exchange& exchange, size_t bytes) {
  if (exchange.held.Resize(exchange.body.size() + bytes)) return std::nullopt;
  return NothingLeftToHold(exchange.service);
}

std::optional<ApiError> HoldVectors(Exchange& exchange, const ServedModel& model, size_t rows,
                                    const EmbedOptions& options) {
  constexpr size_t kValueBytes{sizeof(float) + 13};
  const size_t all = model.engine.info().dimensions;
  return HoldAnswer(exchange, rows * std::min(options.dimensions.value_or(all), all) * kValueBytes);
}

Pending Submit(Exchange& exchange, const ServedModel& model, const TextInput& input,
               const EmbedOptions& options) {
  Pending pending{
      .model = &model,
      .ticket = {},
      .delivery = std::make_shared<Delivery<Outcome>>(exchange.home, exchange.home_thread)};
  exchange.texts = input.size();
  const auto answer = [delivery = pending.delivery](Result<Embeddings> result,
                                                    const SubmitTimes& times) {
    delivery->Set({std::move(result), times});
  };
  pending.ticket = input.is_tokens
                       ? model.engine.SubmitTokens(input.ids, input.offsets, options, answer)
                       : model.engine.Submit(input.texts, options, answer);
  // The texts are token ids now.
  const size_t answer_bytes = exchange.held.bytes() - exchange.body.size();
  exchange.body = std::string();
  exchange.held.Shrink(answer_bytes);
  return pending;
}

Task<Result<Embeddings>> Await(Exchange& exchange, Pending pending) {
  std::optional<PeerWatch> watch;
  if (!pending.delivery->ready()) {
    watch.emplace(exchange, [model = pending.model, ticket = pending.ticket] {
      model->engine.Cancel(ticket);
    });
  }
  Outcome outcome = co_await pending.delivery->Take();
  watch.reset();
  Result<Embeddings>& result = outcome.first;
  if (!result.ok()) co_return std::move(result);
  const Embeddings& embeddings = result.value();
  exchange.times = outcome.second;
  exchange.embedded = true;
  for (const uint32_t tokens : embeddings.tokens) exchange.tokens += tokens;
  for (const uint8_t cut : embeddings.truncated) exchange.truncated += cut;
  Metrics& metrics = exchange.service.metrics;
  metrics.tokens.fetch_add(exchange.tokens, std::memory_order_relaxed);
  metrics.queue.Add(std::chrono::duration<double>(exchange.times.queue).count());
  metrics.tokenization.Add(std::chrono::duration<double>(exchange.times.tokenization).count());
  metrics.inference.Add(std::chrono::duration<double>(exchange.times.inference).count());
  co_return std::move(result);
}

}  // namespace sprat::server
