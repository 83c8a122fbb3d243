#include "cli/help.h"

#include <fmt/format.h>

#include <string_view>

namespace sprat::cli {
namespace {

constexpr size_t kNameColumns{30};
constexpr size_t kColumns{100};

// `text` broken between words into lines of at most `columns`, each after the first indented.
std::string Wrapped(std::string_view text, size_t columns, size_t indent) {
  std::string out;
  size_t used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (used > 0 && used + 1 + word.size() > columns) {
      out += '\n' + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) out += ' ';
    out += word;
    used += word.size() + (used > 0 ? 1 : 0);
  }
  return out;
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = "  " + option->get_name(is_positional, !is_positional);
  if (!is_positional && option->get_type_size() != 0) {
    const std::string type = option->get_type_name();  // what follows ':' are its checks
    name += ' ' + type.substr(0, type.find(':'));
  }
  std::string description = option->get_description();
  if (!option->get_default_str().empty()) {
    description += fmt::format(". Default: {}", option->get_default_str());
  }
  const std::string gap = name.size() + 2 > kNameColumns
                              ? '\n' + std::string(kNameColumns, ' ')
                              : std::string(kNameColumns - name.size(), ' ');
  return name + gap + Wrapped(description, kColumns - kNameColumns, kNameColumns) + '\n';
}

}  // namespace sprat::cli
