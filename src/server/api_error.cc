#include "server/api_error.h"

#include <utility>

#include "server/json_text.h"

namespace sprat::server {
namespace {

constexpr std::string_view kInvalidRequest{"invalid_request_error"};
constexpr std::string_view kServerError{"server_error"};

struct Row {
  ErrorCode error;
  int status;
  std::string_view type;
  std::string_view code;
};

// 499 is what proxies log for a client that went away; one that only closed its sending side sees
// it.
constexpr Row kTable[] = {
    {ErrorCode::kInvalidArgument, 400, kInvalidRequest, ""},
    {ErrorCode::kNotFound, 404, kInvalidRequest, "not_found"},
    {ErrorCode::kUnsupported, 400, kInvalidRequest, "unsupported"},
    {ErrorCode::kCorrupt, 500, kServerError, ""},
    {ErrorCode::kIo, 500, kServerError, ""},
    {ErrorCode::kTooLong, 413, kInvalidRequest, "context_length_exceeded"},
    {ErrorCode::kOverloaded, 429, "rate_limit_error", "overloaded"},
    {ErrorCode::kCancelled, 499, kInvalidRequest, "cancelled"},
    {ErrorCode::kDevice, 500, kServerError, ""},
    {ErrorCode::kOutOfMemory, 500, kServerError, ""},
    {ErrorCode::kInternal, 500, kServerError, ""},
};

// The names of Text Embeddings Inference for what a status means.
std::string_view TeiType(int status) {
  if (status == 429) return "overloaded";
  if (status == 503) return "unhealthy";
  if (status >= 500) return "backend";
  if (status == 401) return "unauthorized";
  return "validation";
}

}  // namespace

ApiError FromError(const Error& error) {
  for (const Row& row : kTable) {
    if (row.error == error.code()) {
      return {.status = row.status,
              .message = error.message(),
              .type = row.type,
              .code = row.code,
              .param = ""};
    }
  }
  return WithStatus(500, error.message());
}

ApiError BadRequest(std::string message, std::string param) {
  return {.status = 400,
          .message = std::move(message),
          .type = kInvalidRequest,
          .code = "",
          .param = std::move(param)};
}

ApiError WithStatus(int status, std::string message) {
  return {.status = status,
          .message = std::move(message),
          .type = status >= 500 ? kServerError : kInvalidRequest,
          .code = "",
          .param = ""};
}

std::string ErrorBody(ApiStyle style, const ApiError& error) {
  std::string body;
  const auto string_or_null = [&body](std::string_view text) {
    if (text.empty()) {
      body += "null";
    } else {
      AppendJsonString(text, body);
    }
  };
  if (style == ApiStyle::kTei) {
    body += R"({"error":)";
    AppendJsonString(error.message, body);
    body += R"(,"error_type":)";
    AppendJsonString(TeiType(error.status), body);
    body += '}';
    return body;
  }
  body += R"({"error":{"message":)";
  AppendJsonString(error.message, body);
  body += R"(,"type":)";
  AppendJsonString(error.type, body);
  body += R"(,"param":)";
  string_or_null(error.param);
  body += R"(,"code":)";
  string_or_null(error.code);
  body += "}}";
  return body;
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Internal Server Error";
  }
}

}  // namespace sprat::server
