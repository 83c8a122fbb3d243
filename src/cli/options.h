// Options that several commands share.
#ifndef SPRAT_CLI_OPTIONS_H_
#define SPRAT_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "cli/text_reader.h"
#include "sprat/engine.h"
#include "sprat/result.h"

namespace sprat::cli {

// A command's work once its options are read. Returns the exit status: 0 done, 1 the work failed;
// an error means 1 after its message.
using Work = std::function<Result<int>()>;

// Which model, how it is opened, and how texts become vectors.
struct ModelOptions {
  std::optional<std::string> model;
  std::optional<std::string> device;  // default: "auto"
  std::string dtype = "auto";
  bool keep_special_tokens_as_text = false;
  EngineOptions engine;
  EmbedOptions embed;
};

// Each adds options to a command; `options` outlives the parsing.
void AddModelOptions(CLI::App& command, ModelOptions& options);    // --model and engine options
void AddEngineOptions(CLI::App& command, ModelOptions& options);   // --device, --threads...
void AddPoolingOptions(CLI::App& command, ModelOptions& options);  // --max-length, --pooling
void AddVectorOptions(CLI::App& command, ModelOptions& options);   // these and --dimensions
void AddPromptOptions(CLI::App& command, ModelOptions& options);   // --prompt-name, --prompt

// Adds --input-format, --text-field and, if `positional`, the FILES.
void AddTextOptions(CLI::App& command, TextSource& source, bool positional = true);

// How the options ask for the model to be opened.
EngineOptions ToEngineOptions(const ModelOptions& options);

// Adds --output.
void AddOutputOption(CLI::App& command, std::optional<std::string>& output);

// Finds and opens the model; prints what the engine had to assume as warnings.
// Errors: those of FindModel and Engine::Open.
Result<Engine> OpenEngine(const ModelOptions& options);

// Each adds one subcommand, which sets `work` when it is the one that is parsed.
void AddEmbed(CLI::App& app, Work& work);
void AddSimilarity(CLI::App& app, Work& work);
void AddSearch(CLI::App& app, Work& work);
void AddTokenize(CLI::App& app, Work& work);
void AddInfo(CLI::App& app, Work& work);
void AddBench(CLI::App& app, Work& work);
void AddNgram(CLI::App& app, Work& work);
void AddAttribute(CLI::App& app, Work& work);
void AddVerify(CLI::App& app, Work& work);
void AddServe(CLI::App& app, Work& work);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_OPTIONS_H_
