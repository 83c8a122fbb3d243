// sprat verify: are vectors made elsewhere the ones that this model makes?
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/agreement.h"
#include "cli/json_writer.h"
#include "cli/npy.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/text_reader.h"
#include "cli/values.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

constexpr size_t kChunkTexts{2048};
constexpr size_t kChunkBytes{8 << 20};
constexpr double kLengthTolerance{0.01};  // of |mine| / |theirs|

struct Options {
  ModelOptions model;
  TextSource source;
  std::string vectors;
  double min_cosine = 0.9999;
  double min_recall = 0.99;
  bool no_normalize = false;
  bool json = false;
};

Error Mismatch(std::string what) { return Error(ErrorCode::kInvalidArgument, std::move(what)); }

Result<Matrix> ReadVectors(const Options& options, const Engine& engine) {
  Result<Matrix> theirs = ReadNpy(options.vectors);
  if (!theirs.ok()) return theirs;
  const size_t dimensions = options.model.embed.dimensions.value_or(engine.info().dimensions);
  if (theirs.value().columns != dimensions) {
    return Mismatch(fmt::format("{}: vectors of {} dimensions; this model makes {}",
                                options.vectors, theirs.value().columns, dimensions));
  }
  const std::vector<float>& values = theirs.value().values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return Mismatch(fmt::format("{}: row {}, column {} is not a finite number", options.vectors,
                                i / dimensions, i % dimensions));
  }
  return theirs;
}

// This model's vectors of the texts, which must be as many as `theirs` has rows.
Result<Matrix> EmbedTexts(const Options& options, const Engine& engine, const Matrix& theirs,
                          std::vector<std::string>& places) {
  EmbedOptions embed = options.model.embed;
  if (options.no_normalize) embed.normalize = false;
  Result<TextReader> reader = TextReader::Open(options.source);
  if (!reader.ok()) return std::move(reader.error());
  Progress progress("texts", false);
  Matrix mine;
  mine.columns = theirs.columns;
  TextChunk chunk;
  while (true) {
    Result<void> filled = reader.value().Fill(kChunkTexts, kChunkBytes, chunk);
    if (!filled.ok()) return std::move(filled.error());
    if (chunk.texts.empty()) break;
    mine.rows += chunk.texts.size();
    if (mine.rows > theirs.rows) break;
    Result<Embeddings> rows = engine.Embed(chunk.texts, embed);
    if (!rows.ok()) return std::move(rows.error());
    mine.values.insert(mine.values.end(), rows.value().values.begin(), rows.value().values.end());
    for (const TextPlace& place : chunk.places) places.push_back(reader.value().Describe(place));
    progress.Update(mine.rows, reader.value().fraction());
  }
  if (mine.rows == theirs.rows) return mine;
  return Mismatch(fmt::format("{} holds {} vectors, but there are {}{} texts", options.vectors,
                              theirs.rows, mine.rows > theirs.rows ? "at least " : "", mine.rows));
}

// Why the vectors do not agree; empty if they do.
std::string Fault(const Options& options, const Agreement& a, const std::string& worst_place) {
  if (!(a.min_cosine >= options.min_cosine)) {
    return fmt::format("the cosine of {} is {:.6f}, below {}", worst_place, a.min_cosine,
                       options.min_cosine);
  }
  if (a.recall && !(*a.recall >= options.min_recall)) {
    return fmt::format("recall@{} is {:.4f}, below {}", a.k, *a.recall, options.min_recall);
  }
  if (a.min_length_ratio < 1 - kLengthTolerance || a.max_length_ratio > 1 + kLengthTolerance) {
    return fmt::format("directions agree, lengths do not: {:.4f} to {:.4f} of theirs{}",
                       a.min_length_ratio, a.max_length_ratio,
                       options.no_normalize ? ""
                                            : " (are theirs made without normalising? then "
                                              "compare with --no-normalize)");
  }
  return {};
}

std::string Table(const Agreement& a, size_t rows, const std::string& worst_place,
                  const std::string& fault) {
  std::string text = fmt::format(
      "texts           {}\nminimum cosine  {:.8f}  ({})\nmean cosine     {:.8f}\n"
      "max difference  {:.3g}\nlengths         {:.6f} to {:.6f} of theirs\n",
      Grouped(rows), a.min_cosine, worst_place, a.mean_cosine, a.max_difference, a.min_length_ratio,
      a.max_length_ratio);
  if (a.recall) text += fmt::format("recall@{:<8} {:.4f}\n", a.k, *a.recall);
  const bool colour = ShowsColour(STDOUT_FILENO);
  if (fault.empty()) return text + Styled("PASS", Style::kGreen, colour) + ": the same vectors\n";
  return text + Styled("FAIL", Style::kRed, colour) + ": " + fault + "\n";
}

std::string Json(const Agreement& a, size_t rows, const Engine& engine, const std::string& fault) {
  JsonObject object;
  object.Add("texts", rows)
      .Add("min_cosine", a.min_cosine)
      .Add("worst_index", a.worst_row)
      .Add("mean_cosine", a.mean_cosine)
      .Add("max_difference", a.max_difference)
      .Add("min_length_ratio", a.min_length_ratio)
      .Add("max_length_ratio", a.max_length_ratio)
      .Add("recall", a.recall.value_or(NAN))
      .Add("recall_at", a.k)
      .Add("arithmetic", engine.info().arithmetic)
      .Add("pass", fault.empty())
      .Add("reason", fault);
  return object.Line();
}

Result<int> Verify(const Options& options) {
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  Result<Matrix> theirs = ReadVectors(options, engine.value());
  if (!theirs.ok()) return std::move(theirs.error());
  std::vector<std::string> places;
  Result<Matrix> mine = EmbedTexts(options, engine.value(), theirs.value(), places);
  if (!mine.ok()) return std::move(mine.error());
  const Agreement agreement = Compare(mine.value(), theirs.value());
  const std::string& worst = places[agreement.worst_row];
  const std::string fault = Fault(options, agreement, worst);
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  Result<void> written =
      output.value().Write(options.json ? Json(agreement, places.size(), engine.value(), fault)
                                        : Table(agreement, places.size(), worst, fault));
  if (written.ok()) written = output.value().Commit();
  if (!written.ok()) return std::move(written.error());
  return fault.empty() ? 0 : 1;
}

}  // namespace

void AddVerify(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare vectors made elsewhere with the ones that this model makes");
  command->add_option("VECTORS", options->vectors, "A .npy matrix: a row a text; f2, f4 or f8")
      ->required()
      ->check(NotEmpty());
  AddTextOptions(*command, options->source);
  command->add_option("--min-cosine", options->min_cosine, "Fail below this cosine of any text")
      ->type_name("X")
      ->check(RealNumber(-1, 1))
      ->capture_default_str();
  command
      ->add_option("--min-recall", options->min_recall,
                   "Fail below this agreement of the ten nearest neighbours")
      ->type_name("X")
      ->check(RealNumber(0, 1))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One object on one line");
  AddModelOptions(*command, options->model);
  AddVectorOptions(*command, options->model);
  AddPromptOptions(*command, options->model);
  command
      ->add_flag("--no-normalize", options->no_normalize,
                 "Leave the lengths of this model's vectors as they are")
      ->group("Model");
  command->footer(
      "Exit status 1 if they differ: the cosine or the neighbours fall below the limits, or the\n"
      "lengths differ by more than 1 %.\n"
      "Example:\n"
      "  sprat embed texts.txt -o vectors.npy && sprat verify vectors.npy texts.txt");
  command->callback([options, &work] {
    const std::vector<std::string>& texts = options->source.paths;
    if (options->vectors == "-" &&
        (texts.empty() || std::count(texts.begin(), texts.end(), "-") > 0)) {
      throw CLI::ValidationError("FILES", "standard input holds the vectors; name a file of texts");
    }
    work = [options] { return Verify(*options); };
  });
}

}  // namespace sprat::cli
