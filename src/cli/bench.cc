// sprat bench: latency and throughput of a model on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/machine.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/text_reader.h"
#include "cli/timing.h"
#include "cli/values.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

constexpr size_t kMaxBatch{4096};
constexpr size_t kMaxTexts{100'000};
constexpr size_t kWarmUpCalls{3};
constexpr double kMaxSeconds{600};

struct Options {
  ModelOptions model;
  std::vector<size_t> tokens = {8, 32, 128};
  std::vector<size_t> batch = {1};
  std::optional<std::string> texts;
  double seconds = 1;
  bool json = false;
};

// Texts of one length for calls of one size, taken in turn.
struct Workload {
  std::vector<std::string> texts;
  double mean_tokens = 0;  // a text, special ones included
};

struct Row {
  double tokens = 0;
  size_t batch = 0;
  Spread spread;
  double texts_per_s = 0;
};

// Frequent English words: each is one token of every English vocabulary we know; the ones that are
// not, here, are left out.
constexpr std::string_view kWords[] = {
    "time",    "year",    "people",  "way",      "day",    "man",        "thing",
    "woman",   "life",    "child",   "world",    "school", "state",      "family",
    "group",   "country", "hand",    "part",     "place",  "case",       "week",
    "company", "system",  "program", "question", "work",   "government", "number",
    "night",   "point",   "home",    "water",    "room",   "mother",     "area",
    "money",   "story",   "fact",    "month",    "right",  "study",      "book",
    "eye",     "job",     "word",    "business", "issue",  "side",       "kind"};

// `count` different texts of exactly `tokens` tokens.
Result<Workload> MakeTexts(const Engine& engine, size_t tokens, size_t count) {
  const auto length = [&engine](std::string_view text) -> Result<size_t> {
    Result<Tokens> ids = engine.Tokenize(text, {}, 0);
    if (!ids.ok()) return std::move(ids.error());
    return ids.value().ids.size();
  };
  Result<size_t> special = length("");
  if (!special.ok()) return std::move(special.error());
  const size_t limit = engine.info().max_length;  // 0: none
  if (tokens <= special.value() || (limit != 0 && tokens > limit)) {
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("--tokens {}: this model takes {} {}, special ones included", tokens,
                    special.value() + 1, limit == 0 ? "or more" : fmt::format("to {}", limit)));
  }
  std::vector<std::string_view> words;
  for (const std::string_view word : kWords) {
    Result<size_t> n = length(word);
    if (!n.ok()) return std::move(n.error());
    if (n.value() == special.value() + 1) words.push_back(word);
  }
  if (words.empty()) {
    return Error(ErrorCode::kUnsupported,
                 "this model's vocabulary has none of the words that texts are made of; give some "
                 "with --texts");
  }
  Workload workload{.texts = {}, .mean_tokens = static_cast<double>(tokens)};
  uint64_t state = 1;  // a fixed sequence (Knuth's MMIX generator), so that runs are comparable
  for (size_t i = 0; i < count; ++i) {
    std::string text;
    for (size_t n = special.value(); n < tokens; ++n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if (!text.empty()) text += ' ';
      text += words[(state >> 33) % words.size()];
    }
    workload.texts.push_back(std::move(text));
  }
  return workload;
}

Result<Workload> ReadTexts(const Engine& engine, const std::string& path) {
  Result<TextReader> reader = TextReader::Open({.paths = {path}});
  if (!reader.ok()) return std::move(reader.error());
  Workload workload;
  size_t tokens = 0;
  while (workload.texts.size() < kMaxTexts) {
    Result<std::optional<std::string_view>> text = reader.value().Next();
    if (!text.ok()) return std::move(text.error());
    if (!text.value()) break;
    Result<Tokens> ids = engine.Tokenize(*text.value());
    if (!ids.ok()) return std::move(ids.error());
    tokens += ids.value().ids.size();
    workload.texts.emplace_back(*text.value());
  }
  workload.mean_tokens = static_cast<double>(tokens) / static_cast<double>(workload.texts.size());
  return workload;
}

// Times calls of `batch` texts for about `seconds`.
Result<Row> Measure(const Engine& engine, const Options& options, const Workload& workload,
                    size_t batch) {
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point since) {
    return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
  };
  std::vector<double> times_us;
  std::vector<std::string_view> texts(batch);
  size_t next = 0;
  const auto call = [&]() -> Result<double> {
    for (std::string_view& text : texts) text = workload.texts[next++ % workload.texts.size()];
    const Clock::time_point start = Clock::now();
    Result<Embeddings> rows = batch == 1 ? engine.EmbedOne(texts[0], options.model.embed)
                                         : engine.Embed(texts, options.model.embed);
    const double took_us = elapsed(start);
    if (!rows.ok()) return std::move(rows.error());
    return took_us;
  };
  for (size_t i = 0; i < kWarmUpCalls; ++i) {
    if (Result<double> warm = call(); !warm.ok()) return std::move(warm.error());
  }
  const Clock::time_point start = Clock::now();
  do {
    Result<double> took_us = call();
    if (!took_us.ok()) return std::move(took_us.error());
    times_us.push_back(took_us.value());
  } while (elapsed(start) < options.seconds * 1e6);
  const Spread spread = Summarize(std::move(times_us));
  return Row{.tokens = workload.mean_tokens,
             .batch = batch,
             .spread = spread,
             .texts_per_s = static_cast<double>(batch) * 1e6 / spread.mean_us};
}

std::string JsonLine(const Row& row, const EngineInfo& info, const std::string& fingerprint) {
  const size_t dash = info.arithmetic.rfind('-');  // "cpu-f32", "gpu-batch-f16"
  const auto rounded = [](double x) { return std::round(10 * x) / 10; };
  const auto micros = [](double us) { return std::round(1000 * us) / 1000; };
  return JsonObject()
      .Add("tokens", rounded(row.tokens))
      .Add("batch", row.batch)
      .Add("threads", info.threads)
      .Add("dtype", std::string_view(info.arithmetic).substr(dash + 1))
      .Add("device", info.device)
      .Add("device_name", info.device_name)
      .Add("path", info.kernels)
      .Add("min_us", micros(row.spread.min_us))
      .Add("p50_us", micros(row.spread.p50_us))
      .Add("p99_us", micros(row.spread.p99_us))
      .Add("texts_per_s", rounded(row.texts_per_s))
      .Add("tokens_per_s", rounded(row.texts_per_s * row.tokens))
      .Add("calls", row.spread.calls)
      .Add("fingerprint", fingerprint)
      .Add("cpu", CpuName())
      .Line();
}

std::string TableLine(const Row& row) {
  const auto micros = [](double us) { return fmt::format("{:.{}f}", us, us < 100 ? 2 : 0); };
  return fmt::format("{:>6.0f} {:>6} {:>10} {:>10} {:>10} {:>10.0f} {:>11.0f}\n", row.tokens,
                     row.batch, micros(row.spread.min_us), micros(row.spread.p50_us),
                     micros(row.spread.p99_us), row.texts_per_s, row.texts_per_s * row.tokens);
}

Result<int> Bench(const Options& options) {
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  const EngineInfo& info = engine.value().info();
  Result<std::string> fingerprint = engine.value().Fingerprint();
  if (!fingerprint.ok()) return std::move(fingerprint.error());
  std::vector<Workload> workloads;
  const size_t texts =
      std::max<size_t>(64, *std::max_element(options.batch.begin(), options.batch.end()));
  if (options.texts) {
    Result<Workload> read = ReadTexts(engine.value(), *options.texts);
    if (!read.ok()) return std::move(read.error());
    workloads.push_back(std::move(read).value());
  }
  for (size_t i = 0; i < options.tokens.size() && !options.texts; ++i) {
    Result<Workload> made = MakeTexts(engine.value(), options.tokens[i], texts);
    if (!made.ok()) return std::move(made.error());
    workloads.push_back(std::move(made).value());
  }
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  std::string header;
  if (!options.json) {
    const std::string where =
        info.device == "cpu" ? fmt::format("{}, {}", CpuName(), Counted(info.threads, "thread"))
                             : fmt::format("{}, {}", info.device, info.device_name);
    header = fmt::format("{}, {}, {}\n{:>6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>11}\n", where,
                         info.arithmetic, info.kernels, "tokens", "batch", "min us", "p50 us",
                         "p99 us", "texts/s", "tokens/s");
  }
  Result<void> written = output.value().Write(header);
  for (const Workload& workload : workloads) {
    for (const size_t batch : options.batch) {
      Result<Row> row = Measure(engine.value(), options, workload, batch);
      if (!row.ok()) return std::move(row.error());
      if (written.ok()) {
        written =
            output.value().Write(options.json ? JsonLine(row.value(), info, fingerprint.value())
                                              : TableLine(row.value()));
      }
      if (written.ok()) written = output.value().Flush();
      if (!written.ok()) return std::move(written.error());
    }
  }
  if (written = output.value().Commit(); !written.ok()) return std::move(written.error());
  return 0;
}

}  // namespace

void AddBench(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure latency and throughput of this model here");
  CLI::Option* tokens =
      command->add_option("--tokens", options->tokens, "Tokens a text, special ones included")
          ->type_name("N,...")
          ->delimiter(',')
          ->transform(WholeNumber(1, uint64_t{1} << 20))
          ->capture_default_str();
  command->add_option("--batch", options->batch, "Texts a call")
      ->type_name("N,...")
      ->delimiter(',')
      ->transform(WholeNumber(1, kMaxBatch))
      ->capture_default_str();
  command->add_option("--texts", options->texts, "Take the texts from this file, one a line")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->excludes(tokens);
  command->add_option("--seconds", options->seconds, "How long to measure each row of the table")
      ->type_name("S")
      ->check(RealNumber(0.001, kMaxSeconds))
      ->capture_default_str();
  command->add_flag("--json", options->json, "An object a line");
  AddModelOptions(*command, options->model);
  AddVectorOptions(*command, options->model);
  AddPromptOptions(*command, options->model);
  command->footer(
      "A call is from text to vector: tokenizing is in it. p50 and p99 are over calls.\n"
      "Example:\n"
      "  sprat bench --tokens 8,16,32,128 --batch 1,32 --threads 1");
  command->callback([options, &work] { work = [options] { return Bench(*options); }; });
}

}  // namespace sprat::cli
