// sprat verify: are vectors made elsewhere, in a file or by a running server, the ones that this
// model makes?
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/agreement.h"
#include "cli/json_writer.h"
#include "cli/npy.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/remote.h"
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
  RemoteOptions remote;  // url "": the vectors are in a file
  double min_cosine = 0.9999;
  double min_recall = 0.99;
  bool no_normalize = false;
  bool json = false;
};

// What a server is asked where no file names texts: short and long, several scripts, and what
// tokenizers and servers take in different ways.
constexpr std::string_view kTexts[] = {
    "good morning",
    "How do I reset my password?",
    "I forgot my login and cannot get in.",
    "The invoice of 31 March (no. 4711) has not been paid.",
    "the invoice of 31 march (no. 4711) has not been paid",
    "Straßenbahnhaltestelle, Öl und Müsli",
    "Le cœur a ses raisons que la raison ne connaît point.",
    "Мороз и солнце; день чудесный!",
    "吾輩は猫である。名前はまだ無い。",
    "مرحبا بالعالم",
    "a\tb\n\nc   d",
    "\"quoted\" \\ back/slash",
    "👩‍👩‍👧 🙂 e\u0301 é",
    "[SEP] ##ing [MASK]",
    "x = (a + b) * c ** 2  # 3.14159",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "The quick brown fox jumps over the lazy dog and then, since nobody objects, does the same "
    "again from the other side, over the same dog, which has by now given up any hope of sleep; a "
    "second fox, which had watched all this from behind the hedge, decides that jumping is not for "
    "it, lies down next to the dog, and both look at the first one until it gets tired and joins "
    "them, whereupon the evening is as quiet as it was before anything in this sentence happened.",
    " ",
    "",
};

Error Mismatch(std::string what) { return Error(ErrorCode::kInvalidArgument, std::move(what)); }

// Where the vectors come from, for messages.
const std::string& Origin(const Options& options) {
  return options.remote.url.empty() ? options.vectors : options.remote.url;
}

Result<void> CheckVectors(const Options& options, const Engine& engine, const Matrix& theirs) {
  const size_t dimensions = options.model.embed.dimensions.value_or(engine.info().dimensions);
  if (theirs.columns != dimensions) {
    return Mismatch(fmt::format("{}: vectors of {} dimensions; this model makes {}",
                                Origin(options), theirs.columns, dimensions));
  }
  const std::vector<float>& values = theirs.values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return Mismatch(fmt::format("{}: row {}, column {} is not a finite number", Origin(options),
                                i / dimensions, i % dimensions));
  }
  return {};
}

// The same texts' vectors from both sides, and where each text is from.
struct Pair {
  Matrix mine;
  Matrix theirs;
  std::vector<std::string> places;
};

Result<void> Append(const Options& options, const Engine& engine,
                    std::span<const std::string_view> texts, Matrix& mine) {
  EmbedOptions embed = options.model.embed;
  if (options.no_normalize) embed.normalize = false;
  Result<Embeddings> rows = engine.Embed(texts, embed);
  if (!rows.ok()) return std::move(rows.error());
  mine.columns = rows.value().dimensions;
  mine.rows += texts.size();
  mine.values.insert(mine.values.end(), rows.value().values.begin(), rows.value().values.end());
  return {};
}

// This model's vectors of the texts, beside a file's, which must be as many, or a server's.
Result<void> ReadTexts(const Options& options, const Engine& engine, const FetchVectors& fetch,
                       Pair& pair) {
  Result<TextReader> reader = TextReader::Open(options.source);
  if (!reader.ok()) return std::move(reader.error());
  Progress progress("texts", false);
  TextChunk chunk;
  while (fetch || pair.mine.rows <= pair.theirs.rows) {
    Result<void> done = reader.value().Fill(kChunkTexts, kChunkBytes, chunk);
    if (!done.ok()) return done;
    if (chunk.texts.empty()) break;
    done = Append(options, engine, chunk.texts, pair.mine);
    if (done.ok() && fetch) done = fetch(chunk.texts, pair.theirs);
    if (!done.ok()) return done;
    for (const TextPlace& place : chunk.places) {
      pair.places.push_back(reader.value().Describe(place));
    }
    progress.Update(pair.mine.rows, reader.value().fraction());
  }
  if (pair.mine.rows == pair.theirs.rows) return {};
  return Mismatch(fmt::format(
      "{} holds {} vectors, but there are {}{} texts", options.vectors, pair.theirs.rows,
      pair.mine.rows > pair.theirs.rows ? "at least " : "", pair.mine.rows));
}

Result<Pair> CompareWithFile(const Options& options, const Engine& engine) {
  Result<Matrix> theirs = ReadNpy(options.vectors);
  if (!theirs.ok()) return std::move(theirs.error());
  Pair pair;
  pair.theirs = std::move(theirs).value();
  Result<void> done = CheckVectors(options, engine, pair.theirs);
  if (done.ok()) done = ReadTexts(options, engine, nullptr, pair);
  if (!done.ok()) return std::move(done.error());
  return pair;
}

Result<Pair> CompareWithServer(const Options& options, const Engine& engine) {
  RemoteOptions remote = options.remote;
  remote.embed = options.model.embed;
  Result<FetchVectors> fetch = OpenRemote(remote);
  if (!fetch.ok()) return std::move(fetch.error());
  Pair pair;
  Result<void> done;
  if (!options.source.paths.empty()) {
    done = ReadTexts(options, engine, fetch.value(), pair);
  } else {
    for (size_t i = 0; i < std::size(kTexts); ++i) {
      pair.places.push_back(fmt::format("built-in text {}", i + 1));
    }
    done = Append(options, engine, kTexts, pair.mine);
    if (done.ok()) done = fetch.value()(kTexts, pair.theirs);
  }
  if (done.ok()) done = CheckVectors(options, engine, pair.theirs);
  if (!done.ok()) return std::move(done.error());
  return pair;
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
  Result<Pair> compared = options.remote.url.empty() ? CompareWithFile(options, engine.value())
                                                     : CompareWithServer(options, engine.value());
  if (!compared.ok()) return std::move(compared.error());
  const Pair& pair = compared.value();
  const std::vector<std::string>& places = pair.places;
  const Agreement agreement = Compare(pair.mine, pair.theirs);
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

// With a URL there is no file of vectors: what is first is a text file then.
void CheckArguments(Options& options) {
  std::vector<std::string>& texts = options.source.paths;
  if (!options.remote.url.empty()) {
    if (!options.vectors.empty()) texts.insert(texts.begin(), std::exchange(options.vectors, {}));
    return;
  }
  if (options.vectors.empty()) throw CLI::RequiredError("VECTORS, or --url,");
  if (options.vectors == "-" &&
      (texts.empty() || std::count(texts.begin(), texts.end(), "-") > 0)) {
    throw CLI::ValidationError("FILES", "standard input holds the vectors; name a file of texts");
  }
}

void AddRemote(CLI::App& command, RemoteOptions& remote) {
  CLI::Option* const url =
      command.add_option("--url", remote.url,
                         "Ask the server there instead of a file; without FILES, for built-in "
                         "texts");
  url->type_name("URL")->check(NotEmpty())->group("Server");
  command
      .add_option("--served-model", remote.model,
                  "The server's name of the model. Default: the only one that it lists")
      ->type_name("NAME")
      ->check(NotEmpty())
      ->needs(url)
      ->group("Server");
  command
      .add_option("--api-key-file", remote.api_key_file, "A file whose first line is the API key")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->needs(url)
      ->group("Server");
}

}  // namespace

void AddVerify(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare vectors made elsewhere with the ones that this model makes");
  command->add_option("VECTORS", options->vectors, "A .npy matrix: a row a text; f2, f4 or f8")
      ->check(NotEmpty());
  AddTextOptions(*command, options->source);
  AddRemote(*command, options->remote);
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
      "Examples:\n"
      "  sprat embed texts.txt -o vectors.npy && sprat verify vectors.npy texts.txt\n"
      "  sprat verify --url http://localhost:8080 -m all-MiniLM-L6-v2");
  command->callback([options, &work] {
    CheckArguments(*options);
    work = [options] { return Verify(*options); };
  });
}

}  // namespace sprat::cli
