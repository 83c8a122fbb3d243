#include "tokenizer/utf8.h"

#include <simdjson.h>

#include <optional>

#include "tokenizer/tokenizer.h"

namespace sprat {
namespace {

// The bytes of the well-formed character at the start of `text` (not empty); 0 if there is none.
// Source: table 3-7 of the Unicode standard.
size_t WellFormedLength(std::string_view text) {
  const unsigned char lead = ByteAt(text.data(), 0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = Utf8Length(lead);
  if (text.size() < length) return 0;
  unsigned char lowest = 0x80;
  unsigned char highest = 0xBF;
  if (lead == 0xE0) lowest = 0xA0;   // no overlong forms
  if (lead == 0xED) highest = 0x9F;  // no surrogates
  if (lead == 0xF0) lowest = 0x90;
  if (lead == 0xF4) highest = 0x8F;  // nothing above U+10FFFF
  for (size_t i = 1; i < length; ++i) {
    const unsigned char byte = ByteAt(text.data(), i);
    if (byte < lowest || byte > highest) return 0;
    lowest = 0x80;
    highest = 0xBF;
  }
  return length;
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = WellFormedLength(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace sprat
