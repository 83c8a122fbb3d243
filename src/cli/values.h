// Checks of what options are given. A value that does not pass is wrong usage, and the message says
// what was expected and what was found.
#ifndef SPRAT_CLI_VALUES_H_
#define SPRAT_CLI_VALUES_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sprat::cli {

// Decimal digits and nothing else, of a value in [min, max]. To be used with transform: leading
// zeros go, which CLI11 would take for the sign of an octal number.
CLI::Validator WholeNumber(uint64_t min, uint64_t max = UINT32_MAX);

// A finite decimal number in [min, max], with or without an exponent: no hexadecimal digits, no
// white space, no leading plus.
CLI::Validator RealNumber(double min, double max);

CLI::Validator OneOf(std::vector<std::string> values);

CLI::Validator NotEmpty();

// Well-formed UTF-8.
CLI::Validator Utf8();

// Throws CLI::ValidationError if `paths`, the value of `option`, name standard input twice: it can
// be read once.
void RefuseStandardInputTwice(const std::string& option, const std::vector<std::string>& paths);

// Throws CLI::ValidationError if the file `output` is one of `inputs`: what replaces an input by
// its own result is never meant.
void RefuseInputAsOutput(const std::vector<std::string>& inputs,
                         const std::optional<std::string>& output);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_VALUES_H_
