#include "cli/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sprat::cli {
namespace {

// Bytes of the character that starts at text[0], 0 if none does. Requires a non-empty text.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tails = [&](size_t first, size_t last) {
    for (size_t i = first; i <= last; ++i) {
      if ((byte(i) & 0xC0u) != 0x80u) return false;
    }
    return true;
  };
  const unsigned lead = byte(0);
  const unsigned second = byte(1);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tails(1, 1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
    if (lead == 0xED && second > 0x9F) return 0;  // surrogates
    return tails(1, 2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (lead == 0xF0 && second < 0x90) return 0;  // overlong
    if (lead == 0xF4 && second > 0x8F) return 0;  // above U+10FFFF
    return tails(1, 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

size_t ValidUtf8Prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    uint64_t eight = 0;
    if (bytes.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, bytes.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const size_t length = CharacterLength(bytes.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return at;
}

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
    const size_t length = CharacterLength(rest);
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
    at += std::max<size_t>(CharacterLength(text.substr(at)), 1);
  }
  return std::string(text);
}

}  // namespace sprat::cli
