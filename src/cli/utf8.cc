#include "cli/utf8.h"

#include <algorithm>

namespace sprat::cli {
size_t CutUtf8(std::string_view text, size_t limit) {
  if (limit >= text.size()) return text.size();
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0u) == 0x80u) --limit;
  return limit;
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool space = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const size_t length = Utf8CharacterLength(rest);
    at += std::max<size_t>(length, 1);
    const auto lead = static_cast<unsigned char>(rest[0]);
    const bool c1_control =
        length == 2 && lead == 0xC2 && static_cast<unsigned char>(rest[1]) < 0xA0;
    if (length == 1 ? (lead <= 0x20 || lead == 0x7F) : c1_control) {
      space = !out.empty();
      continue;
    }
    if (space) out += ' ';
    space = false;
    out += length == 0 ? std::string_view("\xEF\xBF\xBD") : rest.substr(0, length);
  }
  return out;
}

std::string Shorten(std::string_view text, size_t characters) {
  size_t at = 0;
  size_t last = 0;  // where the last kept character starts
  for (size_t n = 0; at < text.size(); ++n) {
    if (n == characters) return std::string(text.substr(0, last)) + "\xE2\x80\xA6";
    last = at;
    at += std::max<size_t>(Utf8CharacterLength(text.substr(at)), 1);
  }
  return std::string(text);
}

}  // namespace sprat::cli
