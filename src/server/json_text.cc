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

}  // namespace

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
