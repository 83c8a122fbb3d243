// sprat ngram: ids and vectors of n-gram embeddings, from token ids.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/machine.h"
#include "cli/ngram_options.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/values.h"
#include "sprat/ngram.h"

namespace sprat::cli {
namespace {

struct Options {
  NgramModelOptions model;
  std::vector<std::string> paths;
  std::string context;
  std::optional<std::string> output;
  std::string format = "jsonl";
  bool json = false;
};

// [[...],[...]]: `values` in rows of `columns`.
template <typename T>
std::string JsonRows(const std::vector<T>& values, size_t columns) {
  std::string json = "[";
  for (size_t first = 0; first < values.size(); first += columns) {
    json += first == 0 ? "[" : ",[";
    AppendNumbers(std::span<const T>(values).subspan(first, columns), ",", json);
    json += ']';
  }
  return json + "]";
}

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Reads the sequences, and writes for each what `line` makes of it with the model that `open`
// opens.
template <typename Open, typename Line>
Result<int> ForEachSequence(const Options& options, const Open& open, const Line& line) {
  Result<std::vector<uint32_t>> context = ParseTokenIds(options.context);
  if (!context.ok()) return std::move(context.error()).In("--context");
  auto model = open(options.model);
  if (!model.ok()) return std::move(model.error());
  Result<std::vector<std::vector<uint32_t>>> sequences = ReadSequences(options.paths);
  if (!sequences.ok()) return std::move(sequences.error());
  Result<OutputFile> output = OutputFile::Create(options.output);
  if (!output.ok()) return std::move(output.error());
  for (size_t i = 0; i < sequences.value().size(); ++i) {
    const NgramPiece piece{.context = context.value(), .tokens = sequences.value()[i]};
    Result<std::string> text = line(model.value(), piece, i);
    if (!text.ok()) return std::move(text.error()).In(fmt::format("sequence {}", i));
    Result<void> written = output.value().Write(text.value());
    if (!written.ok()) return std::move(written.error());
  }
  if (Result<void> done = output.value().Commit(); !done.ok()) return std::move(done.error());
  return 0;
}

Result<std::string> IdsLine(const NgramEmbedding& model, const NgramPiece& piece, size_t index) {
  std::vector<uint32_t> ids(piece.tokens.size() * model.info().tables);
  Result<void> hashed = model.Ids({&piece, 1}, ids);
  if (!hashed.ok()) return std::move(hashed.error());
  return JsonObject().Add("index", index).AddRaw("ids", JsonRows(ids, model.info().tables)).Line();
}

Result<std::string> VectorsLine(NgramRunner& model, const NgramPiece& piece, size_t index,
                                bool raw) {
  std::vector<float> vectors(piece.tokens.size() * model.info().hidden);
  Result<void> embedded = model.EmbedBatch({&piece, 1}, {}, vectors);
  if (!embedded.ok()) return std::move(embedded.error());
  const auto wrong =
      std::find_if_not(vectors.begin(), vectors.end(), [](float x) { return std::isfinite(x); });
  if (wrong != vectors.end()) {
    const auto at = static_cast<size_t>(wrong - vectors.begin());
    return Error(ErrorCode::kCorrupt,
                 fmt::format("column {} of the vector of token {} is {}: a table, a scale or a "
                             "projection of the model holds NaN or infinity",
                             at % model.info().hidden, at / model.info().hidden, *wrong));
  }
  if (raw) return Bytes(vectors);
  return JsonObject()
      .Add("index", index)
      .Add("tokens", piece.tokens.size())
      .AddRaw("embeddings", JsonRows(vectors, model.info().hidden))
      .Line();
}

std::string InfoJson(const NgramInfo& info) {
  return JsonObject()
      .Add("directory", info.directory.string())
      .Add("vocabulary", info.vocabulary)
      .Add("hidden", info.hidden)
      .Add("max_order", info.max_order)
      .Add("splits", info.splits)
      .Add("tables", info.tables)
      .Add("width", info.width)
      .Add("rows", info.rows)
      .Add("eos", info.eos)
      .Add("scale", Name(info.scale))
      .Add("form", Name(info.form))
      .Add("table_dtype", info.table_dtype)
      .Add("row_bytes", info.row_bytes)
      .Add("table_bytes", info.table_bytes)
      .Add("resident_bytes", info.resident_bytes)
      .Add("token_bytes", info.token_bytes)
      .Add("cache_slots", info.cache_slots)
      .Add("reader", info.reader)
      .Add("kernels", info.kernels)
      .Add("threads", info.threads)
      .Add("cpu", CpuName())
      .Line();
}

std::string InfoTable(const NgramInfo& info) {
  std::string text;
  const auto add = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  add("directory", info.directory.string());
  add("n-grams", fmt::format("up to {} tokens, {} tables an order", info.max_order, info.splits));
  add("tables",
      fmt::format("{} with {} rows of {} values", info.tables, Grouped(info.rows), info.width));
  add("vocabulary", Grouped(info.vocabulary));
  add("vector", fmt::format("{} values, scale {}", Grouped(info.hidden), Name(info.scale)));
  add("stored", fmt::format("{}, used {}", info.table_dtype, Name(info.form)));
  add("size", fmt::format("{} of tables, {} in memory", HumanBytes(info.table_bytes),
                          HumanBytes(info.resident_bytes)));
  add("a token reads", fmt::format("{} rows, {} bytes", info.tables, Grouped(info.token_bytes)));
  if (info.cache_slots > 0) {
    add("cache", fmt::format("{} rows, reads by {}", Grouped(info.cache_slots), info.reader));
  }
  add("kernels", fmt::format("{}, {}", info.kernels, Counted(info.threads, "thread")));
  return text;
}

Result<int> Info(const Options& options) {
  Result<NgramEmbedding> model = OpenNgramModel(options.model);
  if (!model.ok()) return std::move(model.error());
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  const NgramInfo& info = model.value().info();
  Result<void> written = output.value().Write(options.json ? InfoJson(info) : InfoTable(info));
  if (written.ok()) written = output.value().Commit();
  if (!written.ok()) return std::move(written.error());
  return 0;
}

CLI::App* AddSequenceCommand(CLI::App& ngram, const char* name, const char* what,
                             const std::shared_ptr<Options>& options) {
  CLI::App* command = ngram.add_subcommand(name, what);
  command
      ->add_option("FILES", options->paths,
                   "Token ids, a sequence a line; none or '-': standard input")
      ->check(NotEmpty());
  command->parse_complete_callback(
      [options] { RefuseStandardInputTwice("FILES", options->paths); });
  command->add_option("--context", options->context, "Token ids before each sequence")
      ->type_name("IDS");
  AddOutputOption(*command, options->output);
  AddNgramModelOptions(*command, options->model);
  return command;
}

void AddIds(CLI::App& ngram, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      AddSequenceCommand(ngram, "ids", "Show which row of each table a token reads", options);
  // No row is read: the word table may be missing.
  options->model.ngram.word_table = false;
  command->footer(
      "Prints {\"index\":i,\"ids\":[[a row of each table],...]} a sequence.\n"
      "Example:\n"
      "  echo '11 523 9001 44' | sprat ngram ids -m LongCat-Flash-Lite");
  command->callback([options, &work] {
    work = [options] { return ForEachSequence(*options, OpenNgramModel, IdsLine); };
  });
}

void AddVectors(CLI::App& ngram, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      AddSequenceCommand(ngram, "embed", "Turn token ids into a vector each", options);
  AddNgramDevice(*command, options->model);
  command->add_option("--format", options->format, "jsonl, or f32: little-endian values alone")
      ->check(OneOf({"jsonl", "f32"}))
      ->capture_default_str();
  command->footer(
      "Prints {\"index\":i,\"tokens\":n,\"embeddings\":[[...],...]} a sequence.\n"
      "Example:\n"
      "  echo '11 523 9001 44' | sprat ngram embed -m LongCat-Flash-Lite --tables cached");
  command->callback([options, &work] {
    work = [options] {
      return ForEachSequence(*options, NgramRunner::Open,
                             [&](NgramRunner& model, const NgramPiece& piece, size_t index) {
                               return VectorsLine(model, piece, index, options->format == "f32");
                             });
    };
  });
}

void AddNgramInfo(CLI::App& ngram, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = ngram.add_subcommand("info", "Show what the model is and what it takes");
  command->add_flag("--json", options->json, "One JSON object");
  options->model.ngram.word_table = false;
  AddNgramModelOptions(*command, options->model);
  command->footer("Example:\n  sprat ngram info -m LongCat-Flash-Lite --tables cached");
  command->callback([options, &work] { work = [options] { return Info(*options); }; });
}

}  // namespace

void AddNgram(CLI::App& app, Work& work) {
  CLI::App* ngram =
      app.add_subcommand("ngram", "N-gram embeddings (LongCat-Flash-Lite): ids, vectors, speed");
  ngram->require_subcommand(1);
  AddIds(*ngram, work);
  AddVectors(*ngram, work);
  AddNgramInfo(*ngram, work);
  AddNgramBench(*ngram, work);
}

}  // namespace sprat::cli
