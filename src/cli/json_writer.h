// JSON text, appended piece by piece.
#ifndef SPRAT_CLI_JSON_WRITER_H_
#define SPRAT_CLI_JSON_WRITER_H_

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json_string.h"

namespace sprat::cli {

// Appends the shortest decimal number that reads back as the same value; JSON has no word for NaN
// and infinity, they become null.
template <typename T>
void AppendNumber(T value, std::string& out) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      out += "null";
      return;
    }
  }
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  out.append(digits, end.ptr);
}

// Appends the numbers with `separator` between them.
template <typename T>
void AppendNumbers(std::span<const T> values, std::string_view separator, std::string& out) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += separator;
    AppendNumber(values[i], out);
  }
}

// One JSON object on one line: {"key":value,...}.
class JsonObject {
 public:
  JsonObject& Add(std::string_view key, std::string_view text);
  JsonObject& Add(std::string_view key, const char* text) {
    return Add(key, std::string_view(text));
  }
  JsonObject& Add(std::string_view key, bool value) {
    return AddRaw(key, value ? "true" : "false");
  }
  template <typename T>
  requires std::is_arithmetic_v<T> JsonObject& Add(std::string_view key, T value) {
    std::string number;
    AppendNumber(value, number);
    return AddRaw(key, number);
  }
  // `json` is itself JSON.
  JsonObject& AddRaw(std::string_view key, std::string_view json);

  std::string Line() const { return text_ + "}\n"; }
  std::string Text() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_JSON_WRITER_H_
