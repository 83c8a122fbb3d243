// The text of --help.
#ifndef SPRAT_CLI_HELP_H_
#define SPRAT_CLI_HELP_H_

#include <CLI/CLI.hpp>
#include <string>

namespace sprat::cli {

// Options with what they take, and their descriptions wrapped beside them.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace sprat::cli

#endif  // SPRAT_CLI_HELP_H_
