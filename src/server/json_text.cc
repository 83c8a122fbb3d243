#include "server/json_text.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace sprat::server {
namespace {

static_assert(std::endian::native == std::endian::little, "AppendBase64 copies f32 as they are");

// The length of the UTF-8 sequence that starts `text`, or 0 and in `bad` how many bytes to skip
// (Unicode, table 3-7: well-formed byte sequences).
size_t Utf8Length(std::string_view text, size_t& bad) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  bad = 1;
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      bad = i;
      return 0;
    }
  }
  return length;
}

void AppendEscaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(out), FMT_COMPILE("\\u{:04x}"),
                     static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    size_t bad = 0;
    const size_t length = Utf8Length(text, bad);
    if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\')) {
      AppendEscaped(c, out);
    } else if (length > 0) {
      out += text.substr(0, length);
    } else {
      out += "\xEF\xBF\xBD";
    }
    text.remove_prefix(length > 0 ? length : bad);
  }
  out += '"';
}

void AppendNumber(float value, std::string& out) {
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}"), value);
}

void AppendNumber(size_t value, std::string& out) {
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}"), value);
}

void AppendVector(std::span<const float> values, std::string& out) {
  constexpr size_t kLongestNumber{24};  // "-1234567900000000" and a comma are 18
  const size_t start = out.size();
  out.resize(start + values.size() * kLongestNumber + 2);
  char* at = out.data() + start;
  *at++ = '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) *at++ = ',';
    at = fmt::format_to(at, FMT_COMPILE("{}"), values[i]);
  }
  *at++ = ']';
  out.resize(static_cast<size_t>(at - out.data()));
}

void AppendBase64(std::span<const float> values, std::string& out) {
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto bytes = std::as_bytes(values);
  const size_t start = out.size();
  out.resize(start + (bytes.size() + 2) / 3 * 4 + 2);
  char* at = out.data() + start;
  *at++ = '"';
  size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const uint32_t three = std::to_integer<uint32_t>(bytes[i]) << 16 |
                           std::to_integer<uint32_t>(bytes[i + 1]) << 8 |
                           std::to_integer<uint32_t>(bytes[i + 2]);
    *at++ = kAlphabet[three >> 18];
    *at++ = kAlphabet[three >> 12 & 63];
    *at++ = kAlphabet[three >> 6 & 63];
    *at++ = kAlphabet[three & 63];
  }
  if (const size_t left = bytes.size() - i; left > 0) {
    const uint32_t first = std::to_integer<uint32_t>(bytes[i]);
    const uint32_t second = left == 2 ? std::to_integer<uint32_t>(bytes[i + 1]) : 0;
    const uint32_t three = first << 16 | second << 8;
    *at++ = kAlphabet[three >> 18];
    *at++ = kAlphabet[three >> 12 & 63];
    *at++ = left == 2 ? kAlphabet[three >> 6 & 63] : '=';
    *at++ = '=';
  }
  *at = '"';
}

}  // namespace sprat::server
