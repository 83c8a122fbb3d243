// sprat attribute: where the time of one query goes.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/timing.h"
#include "cli/values.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

constexpr size_t kWarmUpCalls{20};

struct Options {
  ModelOptions model;
  std::string text;
  size_t calls = 1000;
  bool json = false;
};

struct Stage {
  std::string_view name;
  double QueryStages::*time_us;
};
constexpr Stage kStages[] = {
    {"tokenize", &QueryStages::tokenize}, {"copy in", &QueryStages::copy_in},
    {"enqueue", &QueryStages::enqueue},   {"forward", &QueryStages::forward},
    {"pool", &QueryStages::pool},         {"wake", &QueryStages::wake},
    {"copy out", &QueryStages::copy_out},
};

struct Row {
  std::string_view name;
  Spread spread;
  double share = 0;  // of the mean total
};

std::vector<Row> Summarise(const std::vector<QueryStages>& calls) {
  std::vector<double> times;
  for (const QueryStages& call : calls) times.push_back(call.total());
  const Spread total = Summarize(times);
  std::vector<Row> rows;
  for (const Stage& stage : kStages) {
    times.clear();
    for (const QueryStages& call : calls) times.push_back(call.*stage.time_us);
    const Spread spread = Summarize(times);
    rows.push_back({stage.name, spread, spread.mean_us / total.mean_us});
  }
  rows.push_back({"total", total, 1});
  return rows;
}

std::string Render(const std::vector<Row>& rows, const EngineInfo& info, size_t tokens, bool json) {
  std::string out;
  if (!json) {
    out = fmt::format("{}{}{}, {}, {} tokens\n{:<10} {:>10} {:>10} {:>7}\n", info.device,
                      info.device_name.empty() ? "" : ": ", info.device_name, info.arithmetic,
                      tokens, "stage", "p50 us", "p99 us", "share");
  }
  for (const Row& row : rows) {
    if (json) {
      out += JsonObject()
                 .Add("stage", row.name)
                 .Add("p50_us", row.spread.p50_us)
                 .Add("p99_us", row.spread.p99_us)
                 .Add("share", row.share)
                 .Add("calls", row.spread.calls)
                 .Add("tokens", tokens)
                 .Add("device", info.device)
                 .Add("path", info.kernels)
                 .Line();
    } else {
      out += fmt::format("{:<10} {:>10.2f} {:>10.2f} {:>6.1f}%\n", row.name, row.spread.p50_us,
                         row.spread.p99_us, 100 * row.share);
    }
  }
  return out;
}

Result<int> Attribute(const Options& options) {
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  const EmbedOptions& embed = options.model.embed;
  Result<std::vector<QueryStages>> warm =
      engine.value().Attribute(options.text, kWarmUpCalls, embed);
  if (!warm.ok()) return std::move(warm.error());
  Result<std::vector<QueryStages>> calls =
      engine.value().Attribute(options.text, options.calls, embed);
  if (!calls.ok()) return std::move(calls.error());
  Result<Tokens> tokens = engine.value().Tokenize(options.text, embed);
  if (!tokens.ok()) return std::move(tokens.error());
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  Result<void> written = output.value().Write(Render(
      Summarise(calls.value()), engine.value().info(), tokens.value().ids.size(), options.json));
  if (written.ok()) written = output.value().Commit();
  if (!written.ok()) return std::move(written.error());
  return 0;
}

}  // namespace

void AddAttribute(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("attribute", "Show where the time of one query goes");
  command->add_option("TEXT", options->text, "The query")->required()->check(Utf8());
  command->add_option("--calls", options->calls, "How often it is run")
      ->type_name("N")
      ->transform(WholeNumber(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "An object a line");
  AddModelOptions(*command, options->model);
  AddVectorOptions(*command, options->model);
  AddPromptOptions(*command, options->model);
  command->footer(
      "pool is pooling and normalising, which on a CPU are part of forward. On a GPU both are the\n"
      "device's time, as means of many runs in a row.\n"
      "Example:\n"
      "  sprat attribute --device cuda \"how do I reset my password\"");
  command->callback([options, &work] { work = [options] { return Attribute(*options); }; });
}

}  // namespace sprat::cli
