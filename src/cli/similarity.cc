// sprat similarity: the cosines between texts, as a table.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/text_reader.h"
#include "cli/utf8.h"
#include "cli/values.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

constexpr size_t kMaxTexts{2000};  // the table has its square

struct Options {
  ModelOptions model;
  TextSource source;
  std::vector<std::string> texts;
  bool json = false;
};

// a . b / (|a| |b|); 0 if one of them is zero.
double Cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0, a2 = 0, b2 = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    a2 += double{a[i]} * a[i];
    b2 += double{b[i]} * b[i];
  }
  return a2 > 0 && b2 > 0 ? dot / std::sqrt(a2 * b2) : 0.0;
}

// Texts from the command line, or else from files.
Result<std::vector<std::string>> ReadTexts(const Options& options) {
  if (!options.texts.empty()) return options.texts;
  Result<TextReader> reader = TextReader::Open(options.source);
  if (!reader.ok()) return std::move(reader.error());
  std::vector<std::string> texts;
  while (true) {
    Result<std::optional<std::string_view>> text = reader.value().Next();
    if (!text.ok()) return std::move(text.error());
    if (!text.value()) return texts;
    if (texts.size() == kMaxTexts) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{}: more than {} texts, the limit of a table of similarities",
                               reader.value().Describe(reader.value().place()), kMaxTexts));
    }
    texts.emplace_back(*text.value());
  }
}

std::string Table(const std::vector<std::string>& texts, const Embeddings& rows) {
  const bool colour = ShowsColour(STDOUT_FILENO);
  const size_t n = texts.size();
  const size_t digits = fmt::formatted_size("{}", n);
  const size_t cell = std::max<size_t>(digits, 6) + 1;
  const size_t used = digits + cell * n + 2;
  const size_t columns = TerminalColumns(STDOUT_FILENO).value_or(100);
  // On a line too long for the screen the texts would be lost: they get lines of their own.
  const bool beside = used + 20 <= columns;
  const size_t shown = beside ? columns - used : columns - digits - 2;
  std::string table;
  const auto label = [&](size_t i) { return Shorten(Printable(texts[i]), shown); };
  if (!beside) {
    for (size_t i = 0; i < n; ++i) table += fmt::format("{:>{}}  {}\n", i + 1, digits, label(i));
    table += '\n';
  }
  std::string header(digits, ' ');
  for (size_t j = 0; j < n; ++j) header += fmt::format("{:>{}}", j + 1, cell);
  table += Styled(header, Style::kDim, colour) + '\n';
  for (size_t i = 0; i < n; ++i) {
    table += Styled(fmt::format("{:>{}}", i + 1, digits), Style::kDim, colour);
    for (size_t j = 0; j < n; ++j) {
      table += fmt::format("{:>{}.3f}", Cosine(rows.Row(i), rows.Row(j)), cell);
    }
    if (beside) table += "  " + label(i);
    table += '\n';
  }
  return table;
}

std::string Json(const std::vector<std::string>& texts, const Embeddings& rows) {
  std::string list = "[";
  std::string matrix = "[";
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) list += ',';
    AppendJsonString(texts[i], list);
    matrix += i > 0 ? ",[" : "[";
    for (size_t j = 0; j < texts.size(); ++j) {
      if (j > 0) matrix += ',';
      AppendNumber(static_cast<float>(Cosine(rows.Row(i), rows.Row(j))), matrix);
    }
    matrix += ']';
  }
  return JsonObject().AddRaw("texts", list + "]").AddRaw("similarity", matrix + "]").Line();
}

Result<int> Similarity(const Options& options) {
  Result<std::vector<std::string>> texts = ReadTexts(options);
  if (!texts.ok()) return std::move(texts.error());
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  const std::vector<std::string_view> views(texts.value().begin(), texts.value().end());
  EmbedOptions embed = options.model.embed;
  embed.normalize = true;  // what is shown is the cosine
  Result<Embeddings> rows = engine.value().Embed(views, embed);
  if (!rows.ok()) return std::move(rows.error());
  const auto& truncated = rows.value().truncated;
  if (const auto cut = std::count(truncated.begin(), truncated.end(), 1); cut > 0) {
    Warn(fmt::format("{} of {} had more than {} tokens and {} cut", cut,
                     Counted(views.size(), "text"), engine.value().info().max_length,
                     cut == 1 ? "was" : "were"));
  }
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  const auto render = options.json ? Json : Table;
  Result<void> written = output.value().Write(render(texts.value(), rows.value()));
  if (written.ok()) written = output.value().Commit();
  if (!written.ok()) return std::move(written.error());
  return 0;
}

}  // namespace

void AddSimilarity(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("similarity", "Show how similar texts are: their cosines");
  command->add_option("TEXTS", options->texts, "The texts; none: they are read from --input")
      ->check(Utf8());
  command
      ->add_option("-i,--input", options->source.paths, "Files of texts; default: standard input")
      ->type_name("FILE")
      ->check(NotEmpty());
  AddTextOptions(*command, options->source, /*positional=*/false);
  command->add_flag("--json", options->json, "{\"texts\":[...],\"similarity\":[[...]]}");
  AddModelOptions(*command, options->model);
  AddVectorOptions(*command, options->model);
  AddPromptOptions(*command, options->model);
  command->footer(
      "Example:\n"
      "  sprat similarity \"A cat sits on the mat\" \"A kitten rests\" \"Rates were raised\"\n"
      "  sprat similarity -i texts.txt --json");
  command->callback([options, &work] {
    if (!options->texts.empty() && !options->source.paths.empty()) {
      throw CLI::ValidationError("--input", "give texts or --input, not both");
    }
    work = [options] { return Similarity(*options); };
  });
}

}  // namespace sprat::cli
