#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cli/utf8.h"

namespace sprat::cli {
namespace {

void ToStandardError(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void Message(std::string_view kind, Style style, std::string_view text) {
  std::string lines = fmt::format("sprat: {}", Styled(kind, style, ShowsColour(STDERR_FILENO)));
  std::string_view indent = " ";
  while (true) {
    const size_t end = text.find('\n');
    lines += fmt::format("{}{}\n", indent, Printable(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    indent = "  ";
  }
  ToStandardError(lines);
}

}  // namespace

std::optional<std::string> Env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return {};
  return std::string(value);
}

bool ShowsColour(int fd) {
  return isatty(fd) != 0 && !Env("NO_COLOR") && Env("TERM").value_or("dumb") != "dumb";
}

std::optional<size_t> TerminalColumns(int fd) {
  struct winsize size = {};
  if (isatty(fd) == 0) return {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::max<size_t>(size.ws_col, 40);
}

std::string Styled(std::string_view text, Style style, bool colour) {
  if (!colour) return std::string(text);
  constexpr std::string_view kCodes[] = {"1", "2", "31", "33", "32"};
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<size_t>(style)], text);
}

void Warn(std::string_view text) { Message("warning:", Style::kYellow, text); }
void Complain(std::string_view text) { Message("error:", Style::kRed, text); }

std::string Grouped(size_t n) {
  std::string digits = fmt::format("{}", n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string Counted(size_t n, std::string_view thing) {
  return fmt::format("{} {}{}", Grouped(n), thing, n == 1 ? "" : "s");
}

Progress::Progress(std::string unit, bool output_on_terminal)
    : unit_(std::move(unit)),
      enabled_(isatty(STDERR_FILENO) != 0 && !output_on_terminal),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { Clear(); }

void Progress::Update(size_t done, std::optional<double> fraction) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("\r\033[K{} {}  {:.0f}/s", Grouped(done), unit_,
                                 static_cast<double>(done) / elapsed_s);
  if (fraction && *fraction > 0) {
    constexpr size_t kBarColumns{24};
    const double share = std::min(*fraction, 1.0);
    const auto filled = static_cast<size_t>(share * kBarColumns);
    const auto left_s = static_cast<size_t>(elapsed_s / share * (1 - share));
    line += fmt::format("  [{:#<{}}{:.<{}}] {:.0f} %  {}:{:02} left", "", filled, "",
                        kBarColumns - filled, 100 * share, left_s / 60, left_s % 60);
  }
  ToStandardError(line);
}

void Progress::Clear() {
  if (std::exchange(shown_, false)) ToStandardError("\r\033[K");
}

}  // namespace sprat::cli
