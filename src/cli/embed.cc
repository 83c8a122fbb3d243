// sprat embed: texts to vectors.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/text_reader.h"
#include "cli/values.h"
#include "cli/vector_writer.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

// Enough texts that the engine can sort them well by length, few enough that their vectors take a
// few megabytes.
constexpr size_t kChunkTexts{2048};
constexpr size_t kChunkBytes{8 << 20};

struct Options {
  ModelOptions model;
  TextSource source;
  std::string format;
  std::optional<std::string> output;
  bool stream = false;
  bool no_normalize = false;
};

// Counts the texts that were cut, for one warning at the end.
class CutTexts {
 public:
  void Count(const TextReader& reader, const TextPlace& place) {
    if (count_++ == 0) first_ = reader.Describe(place);
  }
  void Report(size_t texts, size_t max_length) const {
    if (count_ == 0) return;
    Warn(fmt::format("{} of {} had more than {} tokens and {} cut; the first: {}", Grouped(count_),
                     Counted(texts, "text"), max_length, count_ == 1 ? "was" : "were", first_));
  }

 private:
  size_t count_ = 0;
  std::string first_;
};

// The engine's "text 3: ..." with the file and line that text 3 of the chunk came from.
Error InPlace(Error error, const TextReader& reader, const TextChunk& chunk) {
  constexpr std::string_view kText{"text "};
  const std::string_view message = error.message();
  if (!message.starts_with(kText)) return error;
  const char* const digits = message.data() + kText.size();
  const char* const end = message.data() + message.size();
  size_t text = 0;
  const auto [after, fault] = std::from_chars(digits, end, text);
  if (fault != std::errc() || text >= chunk.places.size() || after == end) return error;
  return Error(error.code(),
               reader.Describe(chunk.places[text]).append(after, static_cast<size_t>(end - after)));
}

// All texts, chunk by chunk.
Result<void> EmbedAll(const Engine& engine, const Options& options, TextReader& reader,
                      OutputFile& output, VectorWriter& writer) {
  Progress progress("texts", output.is_terminal());
  CutTexts cut;
  TextChunk chunk;
  while (true) {
    if (Result<void> filled = reader.Fill(kChunkTexts, kChunkBytes, chunk); !filled.ok()) {
      return filled;
    }
    if (chunk.texts.empty()) break;
    Result<Embeddings> rows = engine.Embed(chunk.texts, options.model.embed);
    if (!rows.ok()) return InPlace(std::move(rows.error()), reader, chunk);
    for (size_t i = 0; i < rows.value().rows(); ++i) {
      if (rows.value().truncated[i] != 0) cut.Count(reader, chunk.places[i]);
    }
    if (Result<void> added = writer.Add(rows.value()); !added.ok()) return added;
    progress.Update(writer.rows(), reader.fraction());
  }
  if (Result<void> finished = writer.Finish(); !finished.ok()) return finished;
  progress.Clear();
  cut.Report(writer.rows(), engine.info().max_length);
  return output.Commit();
}

// A line in, a line out, as soon as it is there.
Result<void> EmbedStream(const Engine& engine, const Options& options, TextReader& reader,
                         OutputFile& output, VectorWriter& writer) {
  CutTexts cut;
  while (true) {
    Result<std::optional<std::string_view>> text = reader.Next();
    if (!text.ok()) return std::move(text.error());
    if (!text.value()) break;
    Result<Embeddings> row = engine.EmbedOne(*text.value(), options.model.embed);
    if (!row.ok()) return std::move(row.error()).In(reader.Describe(reader.place()));
    if (row.value().truncated[0] != 0) cut.Count(reader, reader.place());
    if (Result<void> added = writer.Add(row.value()); !added.ok()) return added;
    if (Result<void> flushed = output.Flush(); !flushed.ok()) return flushed;
  }
  cut.Report(writer.rows(), engine.info().max_length);
  return output.Commit();
}

Result<int> Embed(Options options) {
  const VectorFormat format = ChooseVectorFormat(options.format, options.output);
  if (options.no_normalize) options.model.embed.normalize = false;
  options.source.may_be_empty = options.stream;
  Result<TextReader> reader = TextReader::Open(options.source);
  if (!reader.ok()) return std::move(reader.error());
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  Result<OutputFile> output = CreateVectorFile(options.output, format);
  if (!output.ok()) return std::move(output.error());
  VectorWriter writer(output.value(), format);
  const auto run = options.stream ? EmbedStream : EmbedAll;
  Result<void> done = run(engine.value(), options, reader.value(), output.value(), writer);
  if (!done.ok()) return std::move(done.error());
  return 0;
}

}  // namespace

void AddEmbed(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors");
  AddTextOptions(*command, options->source);
  command
      ->add_option("--format", options->format,
                   "jsonl: {\"index\",\"tokens\",\"truncated\",\"embedding\"} a line; csv: the "
                   "values, no header; npy: one f32 matrix; f32: raw little-endian rows. Default: "
                   "by the ending of the output's name, else jsonl")
      ->type_name("FORMAT")
      ->check(OneOf({"jsonl", "npy", "csv", "f32"}));
  AddOutputOption(*command, options->output);
  command->add_flag("--stream", options->stream,
                    "A line in, a line out, flushed: a resident process for scripts");
  AddModelOptions(*command, options->model);
  AddVectorOptions(*command, options->model);
  AddPromptOptions(*command, options->model);
  command
      ->add_flag("--no-normalize", options->no_normalize, "Leave the vectors' lengths as they are")
      ->group("Model");
  command->footer(
      "Row n belongs to line n; a blank line is an empty text and has a row. Lines end with LF or\n"
      "CR LF and are UTF-8, at most 16 MB each. In jsonl a blank line is an error. A line that\n"
      "cannot be read ends --stream: status 1, after the answers to all lines before it.\n"
      "Examples:\n"
      "  printf 'good morning\\nguten Morgen\\n' | sprat embed\n"
      "  sprat embed texts.txt -o vectors.npy\n"
      "  sprat embed --input-format csv --text-field title books.csv -o titles.npy");
  command->callback([options, &work] {
    if (options->stream && (options->format == "npy" || options->output)) {
      throw CLI::ValidationError("--stream", "writes lines to standard output: no npy, no -o");
    }
    RefuseInputAsOutput(options->source.paths, options->output);
    work = [options] { return Embed(*options); };
  });
}

}  // namespace sprat::cli
