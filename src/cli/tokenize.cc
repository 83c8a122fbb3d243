// sprat tokenize: the ids that embed would feed the model.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/text_reader.h"
#include "cli/values.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

struct Options {
  ModelOptions model;
  TextSource source;
  std::optional<size_t> max_length;
  std::optional<std::string> output;
};

std::string Line(size_t index, const Tokens& tokens) {
  std::string ids = "[";
  AppendNumbers(std::span<const uint32_t>(tokens.ids), ",", ids);
  std::string texts = "[";
  for (const std::string& text : tokens.texts) {
    if (texts.size() > 1) texts += ',';
    AppendJsonString(text, texts);
  }
  return JsonObject()
      .Add("index", index)
      .AddRaw("ids", ids + "]")
      .AddRaw("tokens", texts + "]")
      .Line();
}

Result<int> Tokenize(const Options& options) {
  Result<TextReader> reader = TextReader::Open(options.source);
  if (!reader.ok()) return std::move(reader.error());
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  Result<OutputFile> output = OutputFile::Create(options.output);
  if (!output.ok()) return std::move(output.error());
  size_t cut = 0;
  std::string first_cut;
  for (size_t index = 0;; ++index) {
    Result<std::optional<std::string_view>> text = reader.value().Next();
    if (!text.ok()) return std::move(text.error());
    if (!text.value()) break;
    const std::string place = reader.value().Describe(reader.value().place());
    Result<Tokens> tokens =
        engine.value().Tokenize(*text.value(), options.model.embed, options.max_length);
    if (!tokens.ok()) return std::move(tokens.error()).In(place);
    if (tokens.value().truncated && cut++ == 0) first_cut = place;
    Result<void> written = output.value().Write(Line(index, tokens.value()));
    if (!written.ok()) return std::move(written.error());
  }
  if (Result<void> done = output.value().Commit(); !done.ok()) return std::move(done.error());
  if (cut > 0) {
    Warn(fmt::format("{} {} cut (--max-length 0 shows all tokens); the first: {}",
                     Counted(cut, "text"), cut == 1 ? "was" : "were", first_cut));
  }
  return 0;
}

}  // namespace

void AddTokenize(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Show the token ids that embed would feed the model");
  AddTextOptions(*command, options->source);
  AddOutputOption(*command, options->output);
  AddModelOptions(*command, options->model);
  command
      ->add_option("--max-length", options->max_length,
                   "Cut texts after N tokens, special ones included; may exceed the model's limit; "
                   "0: never. Default: the model's")
      ->type_name("N")
      ->transform(WholeNumber(0))
      ->group("Model");
  AddPromptOptions(*command, options->model);
  command->footer(
      "Prints {\"index\":i,\"ids\":[...],\"tokens\":[...]} a text, special tokens included.\n"
      "Example:\n"
      "  echo 'good morning' | sprat tokenize");
  command->callback([options, &work] {
    RefuseInputAsOutput(options->source.paths, options->output);
    work = [options] { return Tokenize(*options); };
  });
}

}  // namespace sprat::cli
