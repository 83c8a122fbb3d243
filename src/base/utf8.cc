#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace sprat {
namespace {

// How a text begins: `length` bytes of what the first announces, of which `good` are there and as
// they must be.
struct Start {
  size_t length = 0;  // 0: the first byte starts nothing
  size_t good = 0;
};

Start Look(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, 1};
  if (lead < 0xC2 || lead > 0xF4) return {0, 0};
  Start start{lead < 0xE0 ? size_t{2} : lead < 0xF0 ? size_t{3} : size_t{4}, 1};
  unsigned lowest = 0x80;
  unsigned highest = 0xBF;
  if (lead == 0xE0) lowest = 0xA0;   // no overlong forms
  if (lead == 0xED) highest = 0x9F;  // no surrogates
  if (lead == 0xF0) lowest = 0x90;
  if (lead == 0xF4) highest = 0x8F;  // nothing above U+10FFFF
  while (start.good < start.length && start.good < text.size()) {
    if (byte(start.good) < lowest || byte(start.good) > highest) break;
    ++start.good;
    lowest = 0x80;
    highest = 0xBF;
  }
  return start;
}

}  // namespace

size_t Utf8CharacterLength(std::string_view text) {
  const Start start = Look(text);
  return start.good == start.length ? start.length : 0;
}

size_t Utf8FaultLength(std::string_view text) {
  const size_t good = Look(text).good;
  return good > 0 ? good : 1;
}

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
    const size_t length = Utf8CharacterLength(bytes.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return at;
}

}  // namespace sprat
