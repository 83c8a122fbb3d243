#include "server/http_client.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <optional>
#include <utility>

namespace sprat::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::uint64_t kMaxReplyBytes{512u << 20};

Error BadUrl(std::string_view text, std::string_view expected) {
  return Error(ErrorCode::kInvalidArgument, "the URL '" + std::string(text) + "': expected " +
                                                std::string(expected) +
                                                ", as in http://localhost:8080");
}

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    url.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return BadUrl(text, "http:// or https://");
  }
  const bool plain = std::all_of(rest.begin(), rest.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '?' && c != '#' && c != '@';
  });
  if (!plain) return BadUrl(text, "a host, a port and a path of printable characters");
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.prefix = rest.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  std::string_view authority = rest.substr(0, slash);
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return BadUrl(text, "']' after the address");
    url.host = authority.substr(1, end - 1);
    authority.remove_prefix(end + 1);
  } else {
    url.host = authority.substr(0, authority.find(':'));
    authority.remove_prefix(url.host.size());
  }
  if (url.host.empty()) return BadUrl(text, "a host");
  url.port = url.tls ? "443" : "80";
  if (authority.empty()) return url;
  if (authority.front() != ':' || !IsPort(authority.substr(1))) return BadUrl(text, "a port");
  url.port = authority.substr(1);
  return url;
}

class HttpClient::Impl {
 public:
  Impl(Url url, HttpClientOptions options) : url_(std::move(url)), options_(std::move(options)) {}

  Result<HttpReply> Request(http::verb verb, std::string_view target, std::string body);

 private:
  using Message = http::request<http::string_body>;

  Error Failed(std::string_view what, const error_code& fault) const {
    const std::string reason =
        fault == beast::error::timeout
            ? "no answer within " + std::to_string(options_.timeout.count()) + " s"
            : fault.message();
    return Error(ErrorCode::kIo,
                 url_.host + ":" + url_.port + ": " + std::string(what) + ": " + reason);
  }

  // Starts an operation that may time out, and runs the loop until it has ended.
  template <typename Start>
  error_code Wait(PlainStream& stream, const Start& start) {
    error_code result;
    stream.expires_after(options_.timeout);
    start([&result](error_code fault, auto&&...) { result = fault; });
    context_.restart();
    context_.run();
    return result;
  }

  Result<void> Connect();
  Result<void> Handshake();
  template <typename Stream>
  Result<HttpReply> Exchange(Stream& stream, const Message& message);

  const Url url_;
  const HttpClientOptions options_;
  asio::io_context context_{1};
  std::optional<asio::ssl::context> tls_;
  std::optional<PlainStream> plain_;  // one of the two, while connected
  std::optional<TlsStream> encrypted_;
};

Result<void> HttpClient::Impl::Connect() {
  error_code fault;
  asio::ip::tcp::resolver resolver(context_);
  const auto addresses = resolver.resolve(url_.host, url_.port, fault);
  if (fault) return Failed("cannot find the host", fault);
  if (url_.tls && !tls_) {
    tls_.emplace(asio::ssl::context::tls_client);
    tls_->set_default_verify_paths(fault);
    tls_->set_verify_mode(asio::ssl::verify_peer, fault);
  }
  if (url_.tls) {
    encrypted_.emplace(context_, *tls_);
  } else {
    plain_.emplace(context_);
  }
  PlainStream& stream = url_.tls ? encrypted_->next_layer() : *plain_;
  fault = Wait(stream, [&](auto done) { stream.async_connect(addresses, std::move(done)); });
  if (fault) return Failed("cannot connect", fault);
  stream.socket().set_option(asio::ip::tcp::no_delay(true), fault);
  return url_.tls ? Handshake() : Result<void>();
}

Result<void> HttpClient::Impl::Handshake() {
  error_code fault;
  SSL_ctrl(encrypted_->native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
           const_cast<char*>(url_.host.c_str()));  // which it copies
  encrypted_->set_verify_callback(asio::ssl::host_name_verification(url_.host), fault);
  fault = Wait(encrypted_->next_layer(), [&](auto done) {
    encrypted_->async_handshake(asio::ssl::stream_base::client, std::move(done));
  });
  return fault ? Result<void>(Failed("TLS", fault)) : Result<void>();
}

template <typename Stream>
Result<HttpReply> HttpClient::Impl::Exchange(Stream& stream, const Message& message) {
  PlainStream& lowest = beast::get_lowest_layer(stream);
  error_code fault =
      Wait(lowest, [&](auto done) { http::async_write(stream, message, std::move(done)); });
  if (fault) return Failed("cannot send", fault);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxReplyBytes);
  fault =
      Wait(lowest, [&](auto done) { http::async_read(stream, buffer, parser, std::move(done)); });
  if (fault) return Failed("cannot receive", fault);
  if (!parser.get().keep_alive()) {
    plain_.reset();
    encrypted_.reset();
  }
  auto reply = parser.release();
  return HttpReply{.status = static_cast<int>(reply.result_int()), .body = std::move(reply.body())};
}

Result<HttpReply> HttpClient::Impl::Request(http::verb verb, std::string_view target,
                                            std::string body) {
  if (!plain_ && !encrypted_) {
    if (Result<void> connected = Connect(); !connected.ok()) {
      plain_.reset();
      encrypted_.reset();
      return std::move(connected.error());
    }
  }
  Message message(verb, url_.prefix + std::string(target), 11);
  const bool bracketed = url_.host.find(':') != std::string::npos;
  message.set(http::field::host,
              bracketed ? "[" + url_.host + "]:" + url_.port : url_.host + ":" + url_.port);
  message.set(http::field::accept, "application/json");
  if (!options_.api_key.empty()) {
    message.set(http::field::authorization, "Bearer " + options_.api_key);
  }
  if (verb == http::verb::post) message.set(http::field::content_type, "application/json");
  message.body() = std::move(body);
  message.prepare_payload();
  Result<HttpReply> reply =
      encrypted_ ? Exchange(*encrypted_, message) : Exchange(*plain_, message);
  if (!reply.ok()) {
    plain_.reset();
    encrypted_.reset();
  }
  return reply;
}

HttpClient::HttpClient(Url url, HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(url), std::move(options))) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpReply> HttpClient::Get(std::string_view target) {
  return impl_->Request(http::verb::get, target, "");
}

Result<HttpReply> HttpClient::Post(std::string_view target, std::string body) {
  return impl_->Request(http::verb::post, target, std::move(body));
}

}  // namespace sprat::server
