#include "cli/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/utf8.h"

namespace sprat::cli {
namespace {

// Whether all of `text` is a number, which is then in `value`.
template <typename Number>
bool Parse(std::string_view text, Number& value) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size();
}

// `text` as a message shows it.
std::string Quoted(std::string_view text) { return Printable(fmt::format("'{}'", text)); }

}  // namespace

CLI::Validator WholeNumber(uint64_t min, uint64_t max) {
  const auto check = [min, max](std::string& text) -> std::string {
    uint64_t value = 0;
    if (!Parse(text, value) || value < min || value > max) {
      return fmt::format("must be a whole number from {} to {}, got {}", min, max, Quoted(text));
    }
    text = fmt::format("{}", value);
    return {};
  };
  return CLI::Validator(check, "");
}

CLI::Validator RealNumber(double min, double max) {
  const auto check = [min, max](std::string& text) -> std::string {
    double value = 0;
    // A comparison with NaN is false.
    if (Parse(text, value) && value >= min && value <= max) return {};
    return fmt::format("must be a number from {} to {}, got {}", min, max, Quoted(text));
  };
  return CLI::Validator(check, "");
}

CLI::Validator OneOf(std::vector<std::string> values) {
  const auto check = [values = std::move(values)](const std::string& text) -> std::string {
    if (std::find(values.begin(), values.end(), text) != values.end()) return {};
    return fmt::format("must be one of {}, got {}", fmt::join(values, ", "), Quoted(text));
  };
  return CLI::Validator(check, "");
}

CLI::Validator NotEmpty() {
  const auto check = [](const std::string& text) -> std::string {
    return text.empty() ? "is empty" : "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator Utf8() {
  const auto check = [](const std::string& text) -> std::string {
    const size_t valid = ValidUtf8Prefix(text);
    if (valid == text.size()) return {};
    return fmt::format("not UTF-8: byte {} of {} is 0x{:02x}", valid + 1, Quoted(text),
                       static_cast<unsigned char>(text[valid]));
  };
  return CLI::Validator(check, "");
}

void RefuseStandardInputTwice(const std::string& option, const std::vector<std::string>& paths) {
  if (std::count(paths.begin(), paths.end(), "-") < 2) return;
  throw CLI::ValidationError(option, "standard input (-) is named twice; it can be read once");
}

void RefuseInputAsOutput(const std::vector<std::string>& inputs,
                         const std::optional<std::string>& output) {
  for (const std::string& path : inputs) {
    std::error_code ignored;
    if (output && std::filesystem::is_regular_file(path, ignored) &&
        std::filesystem::equivalent(path, *output, ignored)) {
      throw CLI::ValidationError("--output", path + " is also an input");
    }
  }
}

}  // namespace sprat::cli
