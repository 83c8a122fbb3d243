// Bodies of every embedding route. Whatever comes in, the answer is a request or an error, and the
// error's text is UTF-8.
#include <string>
#include <variant>

#include "server/request_body.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using sprat::server::ApiError;
using sprat::server::ApiStyle;

template <typename T>
void CheckError(const sprat::server::Parsed<T>& parsed) {
  const ApiError* const error = std::get_if<ApiError>(&parsed);
  if (error == nullptr) return;
  if (error->status < 400 || error->message.empty()) __builtin_trap();
  for (const char c : ErrorBody(ApiStyle::kOpenAi, *error) + ErrorBody(ApiStyle::kTei, *error)) {
    if (static_cast<unsigned char>(c) < 0x20) __builtin_trap();
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string body(reinterpret_cast<const char*>(data), size);
  body.append(sprat::server::kBodyPadding, '\0');
  const std::string_view view(body.data(), size);
  const sprat::server::BodyLimits limits;
  CheckError(ParseOpenAi(view, limits));
  CheckError(ParseTeiEmbed(view, limits));
  CheckError(ParseTeiSimilarity(view, limits));
  CheckError(ParseTeiEmbedAll(view, limits));
  CheckError(ParseTeiTokenize(view, limits));
  CheckError(ParseTeiDecode(view, limits));
  return 0;
}
