#include "tokenizer/utf8.h"

#include <simdjson.h>

#include <optional>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace sprat {
std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  return ValidUtf8Prefix(text);
}

}  // namespace sprat
