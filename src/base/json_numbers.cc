#include "base/json_numbers.h"

#include <cstddef>

namespace sprat {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether c can stand inside a number after its first digit: 1.5e+30.
bool ContinuesNumber(char c) {
  return IsDigit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

}  // namespace

std::string WithLargeNumbersAsReals(std::string_view json) {
  constexpr size_t kLargeDigits{20};  // 2^64 has 20
  std::string result;
  bool in_string = false;
  for (size_t i = 0; i < json.size();) {
    if (in_string || !IsDigit(json[i])) {
      if (json[i] == '"') in_string = !in_string;
      const size_t taken = in_string && json[i] == '\\' ? 2 : 1;  // an escaped quote ends nothing
      result += json.substr(i, taken);
      i += taken;
      continue;
    }
    size_t end = i;
    bool whole = true;
    for (; end < json.size() && ContinuesNumber(json[end]); ++end) {
      whole = whole && IsDigit(json[end]);
    }
    result += json.substr(i, end - i);
    if (whole && end - i >= kLargeDigits) result += ".0";
    i = end;
  }
  return result;
}

}  // namespace sprat
