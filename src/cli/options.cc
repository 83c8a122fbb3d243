#include "cli/options.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "cli/model_path.h"
#include "cli/terminal.h"
#include "cli/values.h"

namespace sprat::cli {
namespace {

std::string CheckDevice(const std::string& device) {
  const bool numbered = device.starts_with("cuda:") && device.size() > 5 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device == "auto" || device == "cpu" || device == "cuda" || numbered) return {};
  return fmt::format("'{}' is not a device; devices are auto, cpu, cuda and cuda:N", device);
}

std::string CheckDtype(const std::string& dtype) {
  if (dtype == "auto" || dtype == "f32") return {};
  return fmt::format("'{}' is not supported; supported: auto, f32", dtype);
}

}  // namespace

void AddModelOptions(CLI::App& command, ModelOptions& options) {
  const auto group = [](CLI::Option* option) { option->group("Model"); };
  group(command
            .add_option("-m,--model", options.model,
                        "A directory, a name under SPRAT_MODELS (~/.cache/sprat/models), or a "
                        "name in Hugging Face's cache. Default: SPRAT_MODEL, or the only "
                        "model there is")
            ->type_name("MODEL")
            ->check(NotEmpty()));
  AddEngineOptions(command, options);
}

void AddEngineOptions(CLI::App& command, ModelOptions& options) {
  const auto group = [](CLI::Option* option) { option->group("Model"); };
  group(command
            .add_option("--device", options.device,
                        "auto, cpu, cuda or cuda:N. Default: auto, the CPU: a GPU, whose vectors "
                        "differ in the last digits, is used only where it is asked for")
            ->type_name("DEVICE")
            ->check(CLI::Validator(CheckDevice, "")));
  group(command.add_option("--dtype", options.dtype, "Arithmetic: auto or f32")
            ->type_name("TYPE")
            ->check(CLI::Validator(CheckDtype, "")));
  group(command
            .add_option("--threads", options.engine.threads,
                        "Compute threads. Default: the CPUs this process may use")
            ->type_name("N")
            ->transform(WholeNumber(1, 1024)));
  group(command.add_flag("--no-special-tokens-in-text", options.keep_special_tokens_as_text,
                         "Take \"[SEP]\" in a text as the letters it is made of"));
  group(command.add_flag("--check-weights", options.engine.check_weights,
                         "Refuse a model whose weights hold NaN or infinity"));
  group(command
            .add_option("--static-semantics", options.engine.static_semantics,
                        "Static models: model2vec drops unknown tokens and cuts long texts, st "
                        "(sentence-transformers) drops none and cuts where tokenizer.json says. "
                        "Default: model2vec")
            ->type_name("RULES")
            ->check(OneOf({"model2vec", "st"})));
}

void AddPoolingOptions(CLI::App& command, ModelOptions& options) {
  const auto group = [](CLI::Option* option) { option->group("Model"); };
  group(command
            .add_option("--max-length", options.engine.max_length,
                        "Cut texts after N tokens, special ones included. Default: the model's")
            ->type_name("N")
            ->transform(WholeNumber(1)));
  group(command
            .add_option("--pooling", options.engine.pooling,
                        "cls, mean, max, mean_sqrt_len, weightedmean or lasttoken instead of "
                        "the model's own")
            ->type_name("HOW")
            ->check(OneOf({"cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken"})));
}

void AddVectorOptions(CLI::App& command, ModelOptions& options) {
  AddPoolingOptions(command, options);
  command
      .add_option("--dimensions", options.embed.dimensions,
                  "Keep the first D values of each vector")
      ->type_name("D")
      ->transform(WholeNumber(1))
      ->group("Model");
}

void AddPromptOptions(CLI::App& command, ModelOptions& options) {
  CLI::Option* name =
      command
          .add_option("--prompt-name", options.embed.prompt_name,
                      "Put the model's prompt of this name before each text (see info)")
          ->type_name("NAME")
          ->check(NotEmpty());
  CLI::Option* text =
      command.add_option("--prompt", options.embed.prompt, "Put this before each text")
          ->check(Utf8());
  name->group("Model")->excludes(text);
  text->group("Model")->type_name("TEXT");
}

void AddTextOptions(CLI::App& command, TextSource& source, bool positional) {
  if (positional) {
    command.add_option("FILES", source.paths, "Files of texts; none, or -: standard input")
        ->check(NotEmpty());
  }
  command
      .add_option("--input-format", source.format,
                  "lines: a text a line; jsonl: a JSON string or object a line; csv: with a header")
      ->type_name("FORMAT")
      ->check(OneOf({"lines", "jsonl", "csv"}))
      ->capture_default_str();
  CLI::Option* field = command
                           .add_option("--text-field", source.text_field,
                                       "The member (jsonl) or column (csv) that holds the text")
                           ->type_name("NAME")
                           ->capture_default_str();
  command.parse_complete_callback([&source, field, positional] {
    RefuseStandardInputTwice(positional ? "FILES" : "--input", source.paths);
    if (field->count() == 0 || source.format != "lines") return;
    throw CLI::ValidationError("--text-field",
                               "has no effect on lines; give --input-format jsonl or csv as well");
  });
}

void AddOutputOption(CLI::App& command, std::optional<std::string>& output) {
  command
      .add_option("-o,--output", output,
                  "Write to this file, which appears whole: it is written beside its place and "
                  "renamed at the end")
      ->type_name("FILE")
      ->check(NotEmpty());
}

EngineOptions ToEngineOptions(const ModelOptions& options) {
  EngineOptions engine = options.engine;
  engine.parse_special_tokens = !options.keep_special_tokens_as_text;
  engine.device = options.device.value_or("auto");
  return engine;
}

Result<Engine> OpenEngine(const ModelOptions& options) {
  Result<std::filesystem::path> directory = FindModel(options.model, Env);
  if (!directory.ok()) return std::move(directory.error());
  Result<Engine> engine = Engine::Open(directory.value(), ToEngineOptions(options));
  if (engine.ok()) {
    const EngineInfo& info = engine.value().info();
    for (const std::string& warning : info.warnings) Warn(warning);
    if (options.engine.static_semantics && info.family != "static") {
      Warn(
          fmt::format("--static-semantics has no effect: this model is no static one but of the "
                      "family {}",
                      info.family));
    }
    if (options.device == "auto")
      Warn("device auto is the CPU; a GPU is used where it is named: cuda, cuda:N");
  }
  return engine;
}

}  // namespace sprat::cli
