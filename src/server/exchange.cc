#include "server/exchange.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace sprat::server {
namespace {

// Whether the peer has closed the connection or its sending side: there is nobody to wait for.
bool PeerIsGone(Socket& socket) {
  const int fd = socket.native_handle();
  char byte = 0;
  const ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n == 0) return true;
  if (n < 0) return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  // More has come: the next request, or TLS saying good-bye. TCP knows whether it was the end.
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_state == TCP_CLOSE_WAIT;
}

}  // namespace

void WhenPeerLeaves(Exchange& exchange, std::function<void()> leave) {
  exchange.socket.async_wait(Socket::wait_read,
                             [socket = &exchange.socket, connection = exchange.connection,
                              leave = std::move(leave)](auto error) {
                               if (error || !socket->is_open()) return;
                               if (PeerIsGone(*socket)) leave();
                             });
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
  exchange.held.Resize(answer_bytes);
  return pending;
}

Task<Result<Embeddings>> Await(Exchange& exchange, Pending pending) {
  const bool waits = !pending.delivery->ready();
  if (waits) {
    WhenPeerLeaves(exchange, [model = pending.model, ticket = pending.ticket] {
      model->engine.Cancel(ticket);
    });
  }
  Outcome outcome = co_await pending.delivery->Take();
  if (waits) {
    boost::system::error_code ignored;
    exchange.socket.cancel(ignored);
  }
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
