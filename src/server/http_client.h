// A client for one HTTP server: one request at a time, over a connection that is kept.
#ifndef SPRAT_SERVER_HTTP_CLIENT_H_
#define SPRAT_SERVER_HTTP_CLIENT_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "sprat/result.h"

namespace sprat::server {

// The parts of "http://HOST[:PORT][/PATH]" or "https://...". HOST may be an IPv6 address in square
// brackets.
struct Url {
  bool tls = false;
  std::string host;    // without brackets
  std::string port;    // "80" or "443" if the URL names none
  std::string prefix;  // "" or "/PATH", without a slash at its end
};

// Errors: kInvalidArgument naming what is wrong with the URL.
Result<Url> ParseUrl(std::string_view text);

struct HttpReply {
  int status = 0;
  std::string body;
};

struct HttpClientOptions {
  std::string api_key;                // sent as a bearer token; "": none
  std::chrono::seconds timeout{120};  // of connecting, sending, and receiving, each
};

// Not for several threads at once.
class HttpClient {
 public:
  explicit HttpClient(Url url, HttpClientOptions options = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // target: what follows the URL's prefix, with its slash. A POST carries JSON.
  // Certificates are checked against the system's authorities (SSL_CERT_FILE names others).
  // Errors: kIo naming host and port, and what failed.
  Result<HttpReply> Get(std::string_view target);
  Result<HttpReply> Post(std::string_view target, std::string body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sprat::server

#endif  // SPRAT_SERVER_HTTP_CLIENT_H_
