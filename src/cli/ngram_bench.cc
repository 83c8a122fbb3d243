// sprat ngram bench: latency and throughput of an n-gram embedding on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/machine.h"
#include "cli/ngram_options.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/timing.h"
#include "cli/values.h"
#include "sprat/ngram.h"

namespace sprat::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMaxSeconds{600};
constexpr size_t kMaxTokens{1 << 20};

struct Options {
  NgramModelOptions model;
  std::vector<size_t> tokens = {1, 16, 64};
  double seconds = 1;
  bool fresh = false;
  bool json = false;
};

struct Row {
  size_t tokens = 0;
  Spread spread;
  double hits = 0;  // distinct rows of a call
  double misses = 0;
  double reads_per_s = 0;
};

// Random tokens: a fixed sequence (Knuth's MMIX generator), so that runs are comparable.
class TokenSource {
 public:
  explicit TokenSource(size_t vocabulary) : vocabulary_(vocabulary) {}
  void Fill(std::vector<uint32_t>& tokens) {
    for (uint32_t& token : tokens) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      token = static_cast<uint32_t>((state_ >> 33) % vocabulary_);
    }
  }

 private:
  size_t vocabulary_;
  uint64_t state_ = 1;
};

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Times calls of `count` tokens for about `seconds`: the same tokens, whose rows are then in the
// cache, or with --fresh others each time.
Result<Row> Measure(NgramRunner& model, const Options& options, size_t count, TokenSource& source) {
  std::vector<uint32_t> tokens(count);
  std::vector<float> out(count * model.info().hidden);
  const std::vector<float> word(options.model.ngram.word_table ? 0 : out.size());
  const NgramPiece piece{.context = {}, .tokens = tokens};
  source.Fill(tokens);
  for (size_t i = 0; i < 2; ++i) {
    Result<void> warm = model.EmbedBatch({&piece, 1}, word, out);
    if (!warm.ok()) return std::move(warm.error());
  }
  const NgramCounters before = model.counters();
  std::vector<double> times_us;
  const Clock::time_point start = Clock::now();
  do {
    if (options.fresh) source.Fill(tokens);
    const Clock::time_point call = Clock::now();
    Result<void> embedded = model.EmbedBatch({&piece, 1}, word, out);
    times_us.push_back(MicrosecondsSince(call));
    if (!embedded.ok()) return std::move(embedded.error());
  } while (MicrosecondsSince(start) < options.seconds * 1e6);
  const NgramCounters after = model.counters();
  Row row{.tokens = count, .spread = Summarize(std::move(times_us))};
  const auto calls = static_cast<double>(row.spread.calls);
  row.hits = static_cast<double>(after.hits - before.hits) / calls;
  row.misses = static_cast<double>(after.misses - before.misses) / calls;
  row.reads_per_s =
      static_cast<double>(after.reads - before.reads) * 1e6 / (row.spread.mean_us * calls);
  return row;
}

std::string JsonLine(const Row& row, const NgramInfo& info, const std::string& device) {
  const auto rounded = [](double x) { return std::round(10 * x) / 10; };
  return JsonObject()
      .Add("tokens", row.tokens)
      .Add("tables", info.tables)
      .Add("hidden", info.hidden)
      .Add("form", Name(info.form))
      .Add("threads", info.threads)
      .Add("kernels", info.kernels)
      .Add("min_us", rounded(row.spread.min_us))
      .Add("p50_us", rounded(row.spread.p50_us))
      .Add("p99_us", rounded(row.spread.p99_us))
      .Add("tokens_per_s", rounded(static_cast<double>(row.tokens) * 1e6 / row.spread.mean_us))
      .Add("hits", rounded(row.hits))
      .Add("misses", rounded(row.misses))
      .Add("reads_per_s", rounded(row.reads_per_s))
      .Add("calls", row.spread.calls)
      .Add("reader", info.reader)
      .Add("cpu", CpuName())
      .Add("device_name", device)
      .Line();
}

std::string TableLine(const Row& row) {
  return fmt::format("{:>6} {:>10.1f} {:>10.1f} {:>10.1f} {:>11.0f} {:>9.1f} {:>9.1f} {:>10.0f}\n",
                     row.tokens, row.spread.min_us, row.spread.p50_us, row.spread.p99_us,
                     static_cast<double>(row.tokens) * 1e6 / row.spread.mean_us, row.hits,
                     row.misses, row.reads_per_s);
}

Result<int> Bench(const Options& options) {
  Result<NgramRunner> model =
      NgramRunner::Open(options.model, "measure it without its word rows: --no-word-table");
  if (!model.ok()) return std::move(model.error());
  const NgramInfo& info = model.value().info();
  const std::string device = model.value().device_name();
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  std::string text;
  if (!options.json) {
    text = fmt::format(
        "{}, {}, {}, {} tables {}\n"
        "{:>6} {:>10} {:>10} {:>10} {:>11} {:>9} {:>9} {:>10}\n",
        device, Counted(info.threads, "thread"), info.kernels, info.tables, Name(info.form),
        "tokens", "min us", "p50 us", "p99 us", "tokens/s", "hits", "misses", "reads/s");
  }
  Result<void> written = output.value().Write(text);
  TokenSource source(info.vocabulary);
  for (const size_t tokens : options.tokens) {
    Result<Row> row = Measure(model.value(), options, tokens, source);
    if (!row.ok()) return std::move(row.error());
    if (written.ok()) {
      written = output.value().Write(options.json ? JsonLine(row.value(), info, device)
                                                  : TableLine(row.value()));
    }
    if (written.ok()) written = output.value().Flush();
    if (!written.ok()) return std::move(written.error());
  }
  if (written = output.value().Commit(); !written.ok()) return std::move(written.error());
  return 0;
}

}  // namespace

void AddNgramBench(CLI::App& ngram, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      ngram.add_subcommand("bench", "Measure latency and throughput of this model here");
  command->add_option("--tokens", options->tokens, "Tokens a call")
      ->type_name("N,...")
      ->delimiter(',')
      ->transform(WholeNumber(1, kMaxTokens))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to measure each row of the table")
      ->type_name("S")
      ->check(RealNumber(0.001, kMaxSeconds))
      ->capture_default_str();
  command->add_flag("--fresh", options->fresh,
                    "Other tokens in every call, so that rows are not in the cache");
  command->add_flag("!--no-word-table", options->model.ngram.word_table,
                    "The model has no word table: word rows of zeros");
  command->add_flag("--json", options->json, "An object a line");
  AddNgramModel(*command, options->model);
  AddNgramTables(*command, options->model);
  AddNgramDevice(*command, options->model);
  command->footer(
      "hits and misses are distinct table rows of a call, reads/s those from disk.\n"
      "Example:\n"
      "  sprat ngram bench -m LongCat-Flash-Lite --tables cached --fresh --tokens 64,512");
  command->callback([options, &work] { work = [options] { return Bench(*options); }; });
}

}  // namespace sprat::cli
