// sprat info: what the model is, what the machine offers.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/machine.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/utf8.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

constexpr std::string_view kPlatforms{"Linux on x86-64 and arm64"};

struct Options {
  ModelOptions model;
  bool json = false;
};

std::string JsonStrings(const std::vector<std::string>& texts) {
  std::string json = "[";
  for (const std::string& text : texts) {
    if (json.size() > 1) json += ',';
    AppendJsonString(text, json);
  }
  return json + "]";
}

std::string Json(const EngineInfo& info, const std::string& fingerprint) {
  JsonObject prompts;
  for (const auto& [name, text] : info.prompts) prompts.Add(name, text);
  JsonObject object;
  object.Add("family", info.family)
      .Add("architecture", info.architecture)
      .Add("directory", info.directory.string())
      .Add("layers", info.layers)
      .Add("hidden", info.hidden)
      .Add("heads", info.heads)
      .Add("ffn", info.ffn)
      .Add("vocabulary", info.vocabulary)
      .Add("dimensions", info.dimensions)
      .Add("parameters", info.parameters)
      .Add("pooling", info.pooling)
      .Add("normalizes", info.normalizes)
      .Add("max_length", info.max_length)
      .Add("position_limit", info.position_limit)
      .AddRaw("prompts", prompts.Text());
  if (info.default_prompt_name) {
    object.Add("default_prompt_name", *info.default_prompt_name);
  } else {
    object.AddRaw("default_prompt_name", "null");
  }
  object.Add("weights_dtype", info.weights_dtype)
      .Add("weight_bytes", info.weight_bytes)
      .Add("peak_resident_bytes", PeakResidentBytes())
      .Add("fingerprint", fingerprint)
      .Add("arithmetic", info.arithmetic)
      .Add("kernels", info.kernels)
      .AddRaw("available_kernels", JsonStrings(AvailableKernels()))
      .Add("threads", info.threads)
      .Add("device", info.device)
      .Add("device_name", info.device_name)
      .Add("cpu", CpuName())
      .Add("usable_cpus", UsableCpus())
      .Add("memory_bytes", MemoryBytes())
      .Add("version", Version())
      .Add("supported", kPlatforms);
  return object.Line();
}

// "[name]  text" lines of a section.
class Lines {
 public:
  explicit Lines(bool colour) : colour_(colour) {}
  void Section(std::string_view title) {
    if (!text_.empty()) text_ += '\n';
    text_ += Styled(title, Style::kBold, colour_) + '\n';
  }
  void Add(std::string_view name, std::string_view value) {
    text_ += fmt::format("  {:<15} {}\n", name, Printable(value));
  }
  const std::string& text() const { return text_; }

 private:
  bool colour_;
  std::string text_;
};

std::string MaximumLength(const EngineInfo& info) {
  if (info.max_length == 0) return "none";
  const std::string limit =
      info.position_limit == 0 ? "any" : fmt::format("up to {}", info.position_limit);
  return fmt::format("{} tokens ({} with --max-length)", info.max_length, limit);
}

std::string Table(const EngineInfo& info, const std::string& fingerprint) {
  Lines lines(ShowsColour(STDOUT_FILENO));
  lines.Section("Model");
  lines.Add("directory", info.directory.string());
  lines.Add("family", fmt::format("{} ({})", info.family, info.architecture));
  if (info.layers > 0) {
    lines.Add("shape", fmt::format("{} layers, width {}, {} heads, feed-forward {}", info.layers,
                                   info.hidden, info.heads, info.ffn));
  }
  lines.Add("vocabulary", Grouped(info.vocabulary));
  lines.Add("dimensions", Grouped(info.dimensions));
  lines.Add("parameters", Grouped(info.parameters));
  lines.Add("weights", fmt::format("{} as stored, {} in memory", info.weights_dtype,
                                   HumanBytes(info.weight_bytes)));
  lines.Add("pooling", info.pooling + (info.normalizes ? ", then normalised" : ""));
  lines.Add("maximum length", MaximumLength(info));
  if (info.prompts.empty()) lines.Add("prompts", "none");
  for (const auto& [name, text] : info.prompts) {
    lines.Add("prompt", fmt::format("{}: '{}'{}", name, text,
                                    info.default_prompt_name == name ? " (default)" : ""));
  }
  lines.Add("fingerprint", fingerprint);
  lines.Add("arithmetic", info.arithmetic);
  lines.Add("device", info.device_name.empty()
                          ? info.device
                          : fmt::format("{}: {}", info.device, info.device_name));
  lines.Section("Machine");
  lines.Add("cpu", fmt::format("{}, {} usable", CpuName(), UsableCpus()));
  lines.Add("kernels",
            fmt::format("{} (available: {})", info.kernels, fmt::join(AvailableKernels(), ", ")));
  lines.Add("threads", Grouped(info.threads));
  lines.Add("memory", fmt::format("{}, of which this process takes {}", HumanBytes(MemoryBytes()),
                                  HumanBytes(PeakResidentBytes())));
  lines.Section(fmt::format("sprat {}", Version()));
  lines.Add("supported", kPlatforms);
  return lines.text();
}

Result<int> Info(const Options& options) {
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  Result<std::string> fingerprint = engine.value().Fingerprint();
  if (!fingerprint.ok()) return std::move(fingerprint.error());
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  const auto render = options.json ? Json : Table;
  Result<void> written = output.value().Write(render(engine.value().info(), fingerprint.value()));
  if (written.ok()) written = output.value().Commit();
  if (!written.ok()) return std::move(written.error());
  return 0;
}

}  // namespace

void AddInfo(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("info", "Show what the model is and what the machine offers");
  command->add_flag("--json", options->json, "One object on one line");
  AddModelOptions(*command, options->model);
  AddPoolingOptions(*command, options->model);
  command->footer(
      "The fingerprint says which model made a vector (an index should store it), the arithmetic\n"
      "tag how it was computed.\n"
      "Example:\n"
      "  sprat info -m all-MiniLM-L6-v2");
  command->callback([options, &work] { work = [options] { return Info(*options); }; });
}

}  // namespace sprat::cli
