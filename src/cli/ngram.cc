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
#include "cli/npy.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/values.h"
#include "cli/vector_writer.h"
#include "sprat/engine.h"
#include "sprat/ngram.h"

namespace sprat::cli {
namespace {

struct Options {
  NgramModelOptions model;
  std::vector<std::string> paths;
  std::vector<uint32_t> context;
  std::optional<std::string> output;
  std::string format;
  std::string word_rows;
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

Result<int> Ids(const Options& options) {
  Result<std::vector<std::vector<uint32_t>>> sequences = ReadSequences(options.paths);
  if (!sequences.ok()) return std::move(sequences.error());
  Result<NgramEmbedding> model = OpenNgramModel(options.model);
  if (!model.ok()) return std::move(model.error());
  Result<OutputFile> output = OutputFile::Create(options.output);
  if (!output.ok()) return std::move(output.error());
  const size_t tables = model.value().info().tables;
  for (size_t i = 0; i < sequences.value().size(); ++i) {
    const NgramPiece piece{.context = options.context, .tokens = sequences.value()[i]};
    std::vector<uint32_t> ids(piece.tokens.size() * tables);
    Result<void> hashed = model.value().Ids({&piece, 1}, ids);
    if (!hashed.ok()) return std::move(hashed.error()).In(fmt::format("sequence {}", i));
    Result<void> written = output.value().Write(
        JsonObject().Add("index", i).AddRaw("ids", JsonRows(ids, tables)).Line());
    if (!written.ok()) return std::move(written.error());
  }
  if (Result<void> done = output.value().Commit(); !done.ok()) return std::move(done.error());
  return 0;
}

// The word rows that the caller brings, a row for each of `tokens` tokens; none without a path.
Result<std::vector<float>> ReadWordRows(const std::string& path, size_t tokens, size_t hidden) {
  if (path.empty()) return std::vector<float>();
  Result<Matrix> rows = ReadNpy(path);
  if (!rows.ok()) return std::move(rows.error());
  if (rows.value().rows == tokens && rows.value().columns == hidden) {
    return std::move(rows.value().values);
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: a matrix of {} x {}, expected {} x {}: a word row for each token",
                           path, rows.value().rows, rows.value().columns, tokens, hidden));
}

// A vector for each token of the piece.
Result<Embeddings> EmbedPiece(NgramRunner& model, const NgramPiece& piece,
                              std::span<const float> word) {
  const size_t hidden = model.info().hidden;
  Embeddings rows{.values = std::vector<float>(piece.tokens.size() * hidden),
                  .dimensions = hidden,
                  .tokens = std::vector<uint32_t>(piece.tokens.size(), 1),
                  .truncated = std::vector<uint8_t>(piece.tokens.size())};
  Result<void> embedded = model.EmbedBatch({&piece, 1}, word, rows.values);
  if (!embedded.ok()) return std::move(embedded.error());
  const auto wrong = std::find_if_not(rows.values.begin(), rows.values.end(),
                                      [](float x) { return std::isfinite(x); });
  if (wrong == rows.values.end()) return rows;
  const auto at = static_cast<size_t>(wrong - rows.values.begin());
  return Error(ErrorCode::kCorrupt,
               fmt::format("column {} of the vector of token {} is {}: a table, a scale, a "
                           "projection or a word row holds NaN or infinity",
                           at % hidden, at / hidden, *wrong));
}

Result<int> Embed(const Options& options) {
  const VectorFormat format = ChooseVectorFormat(options.format, options.output);
  Result<std::vector<std::vector<uint32_t>>> sequences = ReadSequences(options.paths);
  if (!sequences.ok()) return std::move(sequences.error());
  size_t tokens = 0;
  for (const std::vector<uint32_t>& sequence : sequences.value()) tokens += sequence.size();
  Result<NgramRunner> model =
      NgramRunner::Open(options.model, "give the word rows of the tokens: --word-rows FILE");
  if (!model.ok()) return std::move(model.error());
  const size_t hidden = model.value().info().hidden;
  Result<std::vector<float>> word = ReadWordRows(options.word_rows, tokens, hidden);
  if (!word.ok()) return std::move(word.error()).In("--word-rows");
  std::span<const float> word_left = word.value();
  Result<OutputFile> output = CreateVectorFile(options.output, format);
  if (!output.ok()) return std::move(output.error());
  VectorWriter writer(output.value(), format);
  for (size_t i = 0; i < sequences.value().size(); ++i) {
    const NgramPiece piece{.context = options.context, .tokens = sequences.value()[i]};
    const size_t values = std::min(piece.tokens.size() * hidden, word_left.size());
    Result<Embeddings> rows = EmbedPiece(model.value(), piece, word_left.first(values));
    if (!rows.ok()) return std::move(rows.error()).In(fmt::format("sequence {}", i));
    word_left = word_left.subspan(values);
    Result<void> written =
        format != VectorFormat::kJsonl
            ? writer.Add(rows.value())
            : output.value().Write(JsonObject()
                                       .Add("index", i)
                                       .Add("tokens", rows.value().rows())
                                       .AddRaw("embeddings", JsonRows(rows.value().values, hidden))
                                       .Line());
    if (!written.ok()) return std::move(written.error());
  }
  if (Result<void> finished = writer.Finish(); !finished.ok()) return std::move(finished.error());
  if (Result<void> done = output.value().Commit(); !done.ok()) return std::move(done.error());
  return 0;
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
      .Add("word_table", info.word_table)
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
  add("word rows", info.word_table ? "in the files" : "none: embed needs --word-rows");
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
  Result<NgramInfo> info = DescribeNgramModel(options.model);
  if (!info.ok()) return std::move(info.error());
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  const auto render = options.json ? InfoJson : InfoTable;
  Result<void> written = output.value().Write(render(info.value()));
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
  command
      ->add_option_function<std::string>(
          "--context",
          [options](const std::string& text) {
            Result<std::vector<uint32_t>> ids = ParseTokenIds(text);
            if (!ids.ok()) throw CLI::ValidationError("--context", ids.error().message());
            options->context = std::move(ids).value();
          },
          "Token ids before each sequence")
      ->type_name("IDS");
  AddOutputOption(*command, options->output);
  AddNgramModel(*command, options->model);
  return command;
}

void CheckFiles(const Options& options) {
  RefuseStandardInputTwice("FILES", options.paths);
  RefuseInputAsOutput(options.paths, options.output);
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
    CheckFiles(*options);
    work = [options] { return Ids(*options); };
  });
}

void AddVectors(CLI::App& ngram, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      AddSequenceCommand(ngram, "embed", "Turn token ids into a vector each", options);
  AddNgramTables(*command, options->model);
  AddNgramDevice(*command, options->model);
  command
      ->add_option("--format", options->format,
                   "jsonl: {\"index\",\"tokens\",\"embeddings\"} a sequence; csv: a token's values "
                   "a line; npy: one f32 matrix, a row a token; f32: raw little-endian rows. "
                   "Default: by the ending of the output's name, else jsonl")
      ->type_name("FORMAT")
      ->check(OneOf({"jsonl", "npy", "csv", "f32"}));
  command
      ->add_option("--word-rows", options->word_rows,
                   "The word rows of all tokens in order, in place of the model's word table: a "
                   ".npy matrix")
      ->type_name("FILE")
      ->check(NotEmpty());
  command->footer(
      "Examples:\n"
      "  echo '11 523 9001 44' | sprat ngram embed -m LongCat-Flash-Lite --tables cached\n"
      "  sprat ngram embed -m LongCat-Flash-Lite tokens.txt -o vectors.npy");
  command->callback([options, &work] {
    CheckFiles(*options);
    if (!options->word_rows.empty()) {
      RefuseInputAsOutput({options->word_rows}, options->output);
      std::vector<std::string> inputs = options->paths;
      if (inputs.empty()) inputs.emplace_back("-");
      inputs.push_back(options->word_rows);
      RefuseStandardInputTwice("--word-rows", inputs);
    }
    options->model.ngram.word_table = options->word_rows.empty();
    work = [options] { return Embed(*options); };
  });
}

void AddNgramInfo(CLI::App& ngram, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = ngram.add_subcommand("info", "Show what the model is and what it takes");
  command->add_flag("--json", options->json, "One JSON object");
  options->model.ngram.word_table = false;
  AddNgramModel(*command, options->model);
  AddNgramTables(*command, options->model);
  command->footer("Example:\n  sprat ngram info -m LongCat-Flash-Lite --tables cached");
  command->callback([options, &work] { work = [options] { return Info(*options); }; });
}

}  // namespace

void AddNgram(CLI::App& app, Work& work) {
  CLI::App* ngram =
      app.add_subcommand("ngram", "N-gram embeddings (LongCat-Flash-Lite): ids, vectors, speed");
  ngram->require_subcommand(1);
  ngram->footer(
      "Example:\n"
      "  echo '11 523 9001 44' | sprat ngram embed -m LongCat-Flash-Lite\n"
      "'sprat ngram COMMAND --help' says more.");
  AddIds(*ngram, work);
  AddVectors(*ngram, work);
  AddNgramInfo(*ngram, work);
  AddNgramBench(*ngram, work);
}

}  // namespace sprat::cli
