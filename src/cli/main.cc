// sprat: texts to vectors on the command line.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/utf8.h"
#include "sprat/engine.h"

namespace {

constexpr int kFailed{1};
constexpr int kWrongUsage{2};

// What is said when the arguments make no sense.
std::string UsageMessage(const CLI::App* app, const CLI::Error& fault) {
  std::string what = sprat::cli::Printable(fault.what());
  std::string command = "sprat";
  const CLI::App* chosen = app;  // the innermost command that was named
  while (!chosen->get_subcommands().empty()) {
    chosen = chosen->get_subcommands().front();
    command += ' ' + chosen->get_name();
  }
  const bool has_commands = chosen->get_require_subcommand_min() > 0;
  const std::vector<std::string> rest = app->remaining(/*recurse=*/true);
  if (fault.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !rest.empty()) {
    what = "not expected:";  // CLI11 names them backwards
    for (const std::string& argument : rest) what += ' ' + sprat::cli::Printable(argument);
  }
  if (has_commands && fault.get_name() == "RequiredError") {
    if (rest.empty()) return app->help();  // of the innermost
    what = "'" + sprat::cli::Printable(rest[0]) + "' is not a command";
  }
  return "sprat: error: " + what + "\nSee '" + command + " --help'.\n";
}

sprat::Result<void> Print(const std::string& text) {
  sprat::Result<sprat::cli::OutputFile> output = sprat::cli::OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  if (sprat::Result<void> written = output.value().Write(text); !written.ok()) return written;
  return output.value().Commit();
}

int Run(int argc, char** argv) {
  CLI::App app("Texts to vectors: the reference's vectors, at the hardware's speed.", "sprat");
  app.set_version_flag("--version", "sprat " + std::string(sprat::Version()));
  app.require_subcommand(1);
  app.formatter(std::make_shared<sprat::cli::HelpFormatter>());
  app.failure_message(UsageMessage);
  app.footer(
      "Example:\n"
      "  sprat similarity \"A cat sits on the mat\" \"A kitten rests\" \"Rates were raised\"\n"
      "Exit status: 0 done, 1 the work failed, 2 wrong usage. 'sprat COMMAND --help' says more.");
  sprat::cli::Work work;
  sprat::cli::AddEmbed(app, work);
  sprat::cli::AddSimilarity(app, work);
  sprat::cli::AddSearch(app, work);
  sprat::cli::AddTokenize(app, work);
  sprat::cli::AddInfo(app, work);
  sprat::cli::AddVerify(app, work);
  sprat::cli::AddBench(app, work);
  sprat::cli::AddNgram(app, work);
  sprat::cli::AddAttribute(app, work);
  sprat::cli::AddServe(app, work);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& fault) {
    std::ostringstream asked_for;
    if (app.exit(fault, asked_for, std::cerr) != 0) return kWrongUsage;  // says what is wrong
    const sprat::Result<void> printed = Print(asked_for.str());
    if (printed.ok()) return 0;
    sprat::cli::Complain(printed.error().message());
    return kFailed;
  }
  sprat::Result<int> status = work();
  if (status.ok()) return status.value();
  sprat::cli::Complain(status.error().message());
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  sprat::cli::PrepareProcess();
  try {
    return Run(argc, argv);
  } catch (const std::exception& fault) {  // out of memory, above all
    sprat::cli::Complain(fault.what());
    return kFailed;
  }
}
