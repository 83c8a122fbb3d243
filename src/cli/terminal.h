// What goes to a person: messages, colour, progress. All of it to standard error, except tables.
#ifndef SPRAT_CLI_TERMINAL_H_
#define SPRAT_CLI_TERMINAL_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sprat::cli {

// The value of an environment variable that is set and not empty.
std::optional<std::string> Env(const char* name);

// Whether `fd` is a terminal that shows colour: not if NO_COLOR is set (no-color.org) or TERM is
// "dumb".
bool ShowsColour(int fd);

// The columns of the terminal on `fd`, at least 40; nullopt if it is none.
std::optional<size_t> TerminalColumns(int fd);

enum class Style { kBold, kDim, kRed, kYellow, kGreen };

// `text` in a style if `colour`, else as it is.
std::string Styled(std::string_view text, Style style, bool colour);

// To standard error: "sprat: warning: TEXT", "sprat: error: TEXT", further lines of the text
// indented, its control characters made harmless.
void Warn(std::string_view text);
void Complain(std::string_view text);

// "1,234,567"
std::string Grouped(size_t n);

// "1 passage", "1,234 passages": a number of things whose plural ends in s.
std::string Counted(size_t n, std::string_view thing);

// A line on the terminal that is overwritten as work goes on: count, rate and time left. Nothing at
// all unless standard error is a terminal and standard output is not one that results go to.
class Progress {
 public:
  // `unit` in the plural: "texts". `output_on_terminal`: rows would be mixed with the line.
  Progress(std::string unit, bool output_on_terminal);
  ~Progress();

  // `done` things are done, which is `fraction` of all, where that is known.
  void Update(size_t done, std::optional<double> fraction);

  // Removes the line; a later Update brings it back.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string unit_;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_TERMINAL_H_
