#include "server/session.h"

#include <fmt/compile.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <ctime>
#include <optional>
#include <random>
#include <string>

#include "server/access_log.h"
#include "server/routes.h"

namespace sprat::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using TlsStream = asio::ssl::stream<Socket&>;

constexpr size_t kReadBytes{16 << 10};
constexpr size_t kKeptBufferBytes{64 << 10};
constexpr size_t kJoinedBytes{64 << 10};  // a larger body is sent from where it is
// After an error the rest of the request is read and dropped, or the client would get a reset
// instead of the answer (RFC 9112, section 9.6).
constexpr size_t kLingerBytes{16 << 20};
constexpr std::chrono::seconds kLingerTime{2};
constexpr size_t kLongestRequestId{128};
constexpr int kClientLeft{499};  // what it sent behind that request is for nobody

// "Sun, 06 Nov 1994 08:49:37 GMT", written once a second.
std::string_view HttpDate() {
  thread_local std::time_t written = 0;
  thread_local char text[32];
  const std::time_t now = std::time(nullptr);
  if (now != written) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    written = now;
  }
  return text;
}

std::string MakeRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format(FMT_COMPILE("{:016x}"), random());
}

// A client's id is echoed only if it cannot be mistaken for anything else in a header or a log.
bool IsPlain(std::string_view id) {
  return !id.empty() && id.size() <= kLongestRequestId &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

double Milliseconds(SteadyClock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// One connection, plain or TLS.
template <typename Stream>
class Session {
 public:
  Session(NetworkThread& thread, Service& service, std::shared_ptr<Connection> connection,
          Stream& stream, bool refuse)
      : thread_(thread),
        service_(service),
        connection_(std::move(connection)),
        stream_(stream),
        refuse_(refuse),
        held_(service.held) {}

  Task<void> Run() {
    while (co_await ReadRequest()) {
      const bool go_on = co_await Answer();
      if (!go_on) break;
    }
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  Task<bool> ReadRequest();
  Task<bool> ReadSome();
  void HeadArrived();
  void HoldBody(size_t bytes);
  Task<bool> Answer();
  Task<bool> Write(std::string head, std::string body);
  Task<void> Linger();
  std::string AnswerHead(const Exchange& exchange, const Response& response, bool keep) const;
  void AppendCors(std::string& out) const;
  void FaultFrom(error_code fault);

  std::string_view Field(http::field name) const {
    const auto value = parser_->get()[name];
    return {value.data(), value.size()};
  }

  NetworkThread& thread_;
  Service& service_;
  const std::shared_ptr<Connection> connection_;
  Stream& stream_;
  const bool refuse_;
  beast::flat_buffer buffer_;
  // Of the request that is being read or answered:
  std::optional<Parser> parser_;
  std::optional<Response> early_;  // decided before the body was read
  SteadyClock::time_point received_;
  bool head_checked_ = false;
  bool whole_ = false;  // nothing of the request is left unread
  HeldBytes held_;
};

// Waits for more bytes. False at the end of the connection.
template <typename Stream>
Task<bool> Session<Stream>::ReadSome() {
  error_code fault;
  const size_t n = co_await stream_.async_read_some(buffer_.prepare(kReadBytes),
                                                    asio::redirect_error(kAwait, fault));
  buffer_.commit(n);
  co_return !fault;
}

// Reads until a request is complete or an answer is clear without the rest. False if there is
// nothing to answer: the client has gone, or was idle for too long.
template <typename Stream>
Task<bool> Session<Stream>::ReadRequest() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(service_.options.max_header_bytes));
  parser_->body_limit(service_.options.max_body_bytes);
  parser_->eager(true);
  early_.reset();
  head_checked_ = false;
  whole_ = false;
  held_.Resize(0);
  if (buffer_.size() == 0 && buffer_.capacity() > kKeptBufferBytes) buffer_.shrink_to_fit();
  connection_->Enter(Phase::kIdle, service_.options.idle_timeout);
  while (true) {
    if (buffer_.size() > 0) {
      if (connection_->phase == Phase::kIdle) {
        connection_->Enter(Phase::kReading, service_.options.read_timeout);
      }
      error_code fault;
      buffer_.consume(parser_->put(buffer_.data(), fault));
      if (fault && fault != http::error::need_more) {
        FaultFrom(fault);
        co_return true;
      }
      if (parser_->is_header_done() && !head_checked_) HeadArrived();
      HoldBody(parser_->get().body().size());  // of unknown length, it grows as it comes
      whole_ = parser_->is_done();
      if (whole_ || early_.has_value()) co_return true;
      if (head_checked_ && beast::iequals(Field(http::field::expect), "100-continue")) {
        parser_->get().erase(http::field::expect);
        const bool sent = co_await Write("HTTP/1.1 100 Continue\r\n\r\n", "");
        if (!sent) co_return false;
        connection_->Enter(Phase::kReading, service_.options.read_timeout);
      }
    }
    const bool more = co_await ReadSome();
    if (more) continue;
    if (!connection_->expired || connection_->phase != Phase::kReading) co_return false;
    connection_->expired = false;
    early_ = ErrorResponse(StyleOf(PathOf(parser_->get().target())),
                           WithStatus(408, "the request did not arrive in time"));
    co_return true;
  }
}

// What the parser cannot take.
template <typename Stream>
void Session<Stream>::FaultFrom(error_code fault) {
  const ApiStyle style = StyleOf(PathOf(parser_->get().target()));
  if (fault == http::error::body_limit) {
    early_ = ErrorResponse(
        style, WithStatus(413, "the body is larger than the limit of " +
                                   std::to_string(service_.options.max_body_bytes) + " bytes"));
  } else if (fault == http::error::header_limit || fault == http::error::buffer_overflow) {
    early_ = ErrorResponse(
        style, WithStatus(431, "the header is larger than the limit of " +
                                   std::to_string(service_.options.max_header_bytes) + " bytes"));
  } else {
    early_ = ErrorResponse(style, BadRequest("not a valid HTTP request: " + fault.message()));
  }
}

// Decides what can be decided before the body comes.
template <typename Stream>
void Session<Stream>::HeadArrived() {
  head_checked_ = true;
  const auto& request = parser_->get();
  const std::string_view target(request.target().data(), request.target().size());
  const std::string_view path = PathOf(target);
  const ApiStyle style = StyleOf(path);
  if (refuse_) {
    early_ = ErrorResponse(style, WithStatus(503, "too many connections"));
    return;
  }
  if (request.version() != 11 && request.version() != 10) {
    early_ = ErrorResponse(style, WithStatus(505, "HTTP/1.1 is spoken here"));
    return;
  }
  if (request.method() == http::verb::options && !service_.options.cors_origin.empty()) {
    early_ = Response{.status = 204, .content_type = ""};
    return;
  }
  const Head head{.method = {request.method_string().data(), request.method_string().size()},
                  .path = path,
                  .authorization = Field(http::field::authorization),
                  .content_type = Field(http::field::content_type)};
  early_ = CheckHead(service_, head);
  const auto length = parser_->content_length();
  if (!early_.has_value() && length.has_value() && *length > service_.options.max_body_bytes) {
    FaultFrom(http::make_error_code(http::error::body_limit));
  }
  HoldBody(static_cast<size_t>(length.value_or(0)));
  if (!early_.has_value() && length.value_or(0) > ByteBudget::kSmallBytes) {
    parser_->get().body().reserve(static_cast<size_t>(*length) + kBodyPadding);  // not copied later
  }
}

// Takes room for the body, or decides to say that there is none; what has come is dropped then.
template <typename Stream>
void Session<Stream>::HoldBody(size_t bytes) {
  if (early_.has_value() || bytes <= held_.bytes() || held_.Resize(bytes)) return;
  early_ = ErrorResponse(StyleOf(PathOf(parser_->get().target())), NothingLeftToHold(service_));
  parser_->get().body() = std::string();
  held_.Resize(0);
}

// Answers the request that was read. False if the connection ends with it.
template <typename Stream>
Task<bool> Session<Stream>::Answer() {
  received_ = SteadyClock::now();
  auto& request = parser_->get();
  const std::string_view target(request.target().data(), request.target().size());
  const auto id = request["x-request-id"];
  Exchange exchange{
      .service = service_,
      .home = thread_.executor(),
      .home_thread = std::this_thread::get_id(),
      .socket = connection_->socket,
      .connection = connection_,
      .method = std::string(request.method_string()),
      .path = std::string(PathOf(target)),
      .body = std::move(request.body()),
      .request_id = IsPlain({id.data(), id.size()}) ? std::string(id) : MakeRequestId(),
      .received = received_,
      .held = std::move(held_)};
  bool keep = whole_ && request.keep_alive() && !refuse_;
  Response response;
  if (early_.has_value()) {
    response = std::move(*early_);
  } else {
    connection_->Enter(Phase::kWorking, std::chrono::hours(24));
    response = co_await Handle(exchange);
  }
  if (service_.draining() || response.status == kClientLeft) keep = false;
  const SteadyClock::duration took = SteadyClock::now() - received_;
  const Route* const route = FindRoute(exchange.path, exchange.method);
  service_.metrics.CountRequest(RouteIndex(route == nullptr ? "other" : route->path),
                                response.status, took);
  if (service_.options.access_log) LogAccess(exchange, response, took);
  std::string head = AnswerHead(exchange, response, keep);
  if (exchange.method == "HEAD") response.body = std::string();
  exchange.body = std::string();  // its bytes are given back next
  if (response.body.size() < exchange.held.bytes()) exchange.held.Shrink(response.body.size());
  connection_->Enter(Phase::kWriting, service_.options.idle_timeout);
  const bool sent = co_await Write(std::move(head), std::move(response.body));
  exchange.held.Resize(0);
  if (sent && !keep) co_await Linger();
  co_return sent&& keep;
}

template <typename Stream>
Task<bool> Session<Stream>::Write(std::string head, std::string body) {
  error_code fault;
  if (body.size() <= kJoinedBytes) {
    head += body;
    co_await asio::async_write(stream_, asio::buffer(head), asio::redirect_error(kAwait, fault));
  } else {
    const std::array<asio::const_buffer, 2> parts{asio::buffer(head), asio::buffer(body)};
    co_await asio::async_write(stream_, parts, asio::redirect_error(kAwait, fault));
  }
  co_return !fault;
}

template <typename Stream>
std::string Session<Stream>::AnswerHead(const Exchange& exchange, const Response& response,
                                        bool keep) const {
  std::string out;
  out.reserve(512 + (response.body.size() <= kJoinedBytes ? response.body.size() : 0));
  const auto at = std::back_inserter(out);
  fmt::format_to(at, FMT_COMPILE("HTTP/1.1 {} {}\r\nDate: {}\r\n"), response.status,
                 ReasonPhrase(response.status), HttpDate());
  if (response.status != 204) {
    fmt::format_to(at, FMT_COMPILE("Content-Type: {}\r\nContent-Length: {}\r\n"),
                   response.content_type, response.body.size());
  }
  fmt::format_to(at, FMT_COMPILE("x-request-id: {}\r\n"), exchange.request_id);
  if (exchange.embedded) {
    fmt::format_to(at,
                   FMT_COMPILE("x-total-time: {:.3f}\r\nx-queue-time: {:.3f}\r\n"
                               "x-tokenization-time: {:.3f}\r\nx-inference-time: {:.3f}\r\n"
                               "x-truncated: {}\r\n"),
                   Milliseconds(SteadyClock::now() - exchange.received),
                   Milliseconds(exchange.times.queue), Milliseconds(exchange.times.tokenization),
                   Milliseconds(exchange.times.inference), exchange.truncated);
  }
  if (!keep) out += "Connection: close\r\n";
  if (keep && parser_->get().version() == 10) out += "Connection: keep-alive\r\n";
  AppendCors(out);
  out += response.headers;
  out += "\r\n";
  return out;
}

template <typename Stream>
void Session<Stream>::AppendCors(std::string& out) const {
  if (service_.options.cors_origin.empty()) return;
  fmt::format_to(std::back_inserter(out),
                 "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n"
                 "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"
                 "Access-Control-Allow-Headers: Authorization, Content-Type, X-Request-Id, *\r\n"
                 "Access-Control-Expose-Headers: x-request-id, x-total-time, x-queue-time, "
                 "x-tokenization-time, x-inference-time, x-truncated, Retry-After\r\n"
                 "Access-Control-Max-Age: 86400\r\n",
                 service_.options.cors_origin);
}

// Ends the connection so that its last answer arrives: says good-bye, and reads what the client was
// still sending.
template <typename Stream>
Task<void> Session<Stream>::Linger() {
  error_code ignored;
  if constexpr (std::is_same_v<Stream, TlsStream>) {
    connection_->Enter(Phase::kWriting, kLingerTime);
    co_await stream_.async_shutdown(asio::redirect_error(kAwait, ignored));
  }
  connection_->socket.shutdown(Socket::shutdown_send, ignored);
  connection_->Enter(Phase::kWriting, kLingerTime);
  char dropped[4096];
  error_code fault;
  for (size_t n = 0; n < kLingerBytes && !fault;) {
    n += co_await connection_->socket.async_read_some(asio::buffer(dropped),
                                                      asio::redirect_error(kAwait, fault));
  }
}

}  // namespace

Task<void> ServeConnection(NetworkThread& thread, Service& service, Socket socket,
                           asio::ssl::context* tls, bool refuse) {
  const auto connection = std::make_shared<Connection>(std::move(socket));
  const NetworkThread::Place place(thread, *connection);
  if (tls == nullptr) {
    Session<Socket> session(thread, service, connection, connection->socket, refuse);
    co_await session.Run();
  } else {
    TlsStream stream(connection->socket, *tls);
    connection->Enter(Phase::kWriting, service.options.read_timeout);
    error_code fault;
    co_await stream.async_handshake(asio::ssl::stream_base::server,
                                    asio::redirect_error(kAwait, fault));
    if (!fault) {
      Session<TlsStream> session(thread, service, connection, stream, refuse);
      co_await session.Run();
    }
  }
  error_code ignored;
  connection->socket.close(ignored);
}

}  // namespace sprat::server
