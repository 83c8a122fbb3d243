// What a client is told when a request fails: one table from error codes to HTTP statuses.
#ifndef SPRAT_SERVER_API_ERROR_H_
#define SPRAT_SERVER_API_ERROR_H_

#include <string>
#include <string_view>

#include "sprat/result.h"

namespace sprat::server {

// The two API styles: /v1/... answers as OpenAI does, everything else as Text Embeddings Inference.
enum class ApiStyle { kOpenAi, kTei };

struct ApiError {
  int status = 500;
  std::string message = {};
  std::string_view type = {};  // OpenAI "type": "invalid_request_error", ...
  std::string_view code = {};  // OpenAI "code"; "" is null
  std::string param = {};      // OpenAI "param": the field at fault; "" is null
};

// The status and names that an error of the engine has on the wire.
ApiError FromError(const Error& error);

// Errors of the HTTP layer and of a request's form.
ApiError BadRequest(std::string message, std::string param = "");
ApiError WithStatus(int status, std::string message);

// The JSON body of an error.
//   OpenAI: {"error":{"message":s,"type":s,"param":s|null,"code":s|null}}
//   TEI:    {"error":s,"error_type":s}
std::string ErrorBody(ApiStyle style, const ApiError& error);

// "Not Found" for 404, and so on.
std::string_view ReasonPhrase(int status);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_API_ERROR_H_
