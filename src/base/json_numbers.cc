#include "base/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace sprat {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether c can stand inside a number after its first digit: 1.5e+30.
bool ContinuesNumber(char c) {
  return IsDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

// digits: of a whole number, without its sign.
bool Beyond64Bits(std::string_view digits, bool negative) {
  const std::string_view largest = negative ? "9223372036854775808" : "18446744073709551615";
  return digits.size() == largest.size() ? digits > largest : digits.size() > largest.size();
}

// The end of the digits that start at `at`.
size_t DigitsEnd(std::string_view text, size_t at) {
  while (at < text.size() && IsDigit(text[at])) ++at;
  return at;
}

// Whether `number`, which starts with a digit, is a number of JSON beyond the largest double.
bool BeyondDouble(std::string_view number) {
  double value = 0;
  const char* const end = number.data() + number.size();
  if (std::from_chars(number.data(), end, value).ec != std::errc::result_out_of_range) return false;
  const size_t point = DigitsEnd(number, 0);
  if (number[0] == '0' && point > 1) return false;  // not JSON
  size_t at = point;
  if (at < number.size() && number[at] == '.') {
    at = DigitsEnd(number, point + 1);
    if (at == point + 1) return false;
  }
  // Too large, or too close to zero: the first digit that is not 0 stands far from 10^0.
  const int64_t power = static_cast<int64_t>(point) -
                        static_cast<int64_t>(number.substr(0, at).find_first_not_of("0."));
  if (at == number.size()) return power > 0;
  ++at;  // 'e', the only other thing that from_chars reads on behind
  const bool negative = at < number.size() && number[at] == '-';
  if (negative || (at < number.size() && number[at] == '+')) ++at;
  if (at == number.size() || DigitsEnd(number, at) < number.size()) return false;
  int64_t exponent = 0;
  const std::errc read = std::from_chars(number.data() + at, end, exponent).ec;
  if (read == std::errc::result_out_of_range) return !negative;
  return negative ? power > exponent : exponent > -power;  // their sum may not fit
}

}  // namespace

std::optional<std::string> WithLargeNumbersAsReals(std::string_view json) {
  std::string result;
  size_t copied = 0;  // bytes of json that are in result, changed where they had to be
  bool in_string = false;
  for (size_t i = 0; i < json.size();) {
    if (in_string || !IsDigit(json[i])) {
      if (json[i] == '"') in_string = !in_string;
      i += in_string && json[i] == '\\' ? 2 : 1;  // an escaped quote ends nothing
      continue;
    }
    size_t end = i;
    bool whole = true;
    for (; end < json.size() && ContinuesNumber(json[end]); ++end) {
      whole = whole && IsDigit(json[end]);
    }
    const bool beyond = BeyondDouble(json.substr(i, end - i));
    const bool negative = i > 0 && json[i - 1] == '-';
    if (beyond || (whole && Beyond64Bits(json.substr(i, end - i), negative))) {
      result += json.substr(copied, (beyond ? i : end) - copied);
      result += beyond ? "1e308" : ".0";
      copied = end;
    }
    i = end;
  }
  if (copied == 0) return std::nullopt;
  result += json.substr(copied);
  return result;
}

}  // namespace sprat
