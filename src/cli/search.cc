// sprat search: the passages of files that are nearest to a query, a grep for meaning.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/json_writer.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/passages.h"
#include "cli/terminal.h"
#include "cli/text_files.h"
#include "cli/utf8.h"
#include "cli/values.h"
#include "cli/vector_cache.h"
#include "sprat/engine.h"

namespace sprat::cli {
namespace {

constexpr size_t kBatchPassages{128};
constexpr size_t kUnlimitedPassage{1536};  // bytes, for a model without a maximum length
constexpr size_t kSmallestHalved{64};      // a passage of fewer bytes is not halved any more
constexpr std::chrono::seconds kSaveEvery{2};
constexpr int kWorkPerSaving{10};  // saving writes the whole file: at most a tenth of the time
constexpr std::chrono::milliseconds kLockPatience{3000};
constexpr size_t kShownUnreadable{3};
constexpr size_t kShownLines{6};  // of a passage, on a terminal

struct Options {
  ModelOptions model;
  std::string query;
  std::vector<std::string> paths;
  size_t top = 10;
  bool no_cache = false;
  bool json = false;
};

// A passage that waits for its vector, or has its score.
struct Candidate {
  std::shared_ptr<const std::string> path;  // shared by all passages of a file
  std::string text;
  size_t line = 0;
  Digest digest = {};
  float score = 0;
  size_t copies = 0;  // further places with the same text
};

// The prompts that the model has for queries and for what they are compared with, by the names that
// sentence-transformers uses (encode_query, encode_document).
std::optional<std::string> PromptNamed(const EngineInfo& info,
                                       std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (info.prompts.contains(name)) return name;
  }
  return {};
}

// Everything besides its text that the vector of a passage depends on.
Digest CacheKey(const EngineInfo& info, const std::string& fingerprint, const EmbedOptions& embed,
                bool special_tokens) {
  std::string key = fingerprint + '\n' + info.arithmetic + '\n' + info.pooling + '\n';
  key += fmt::format("{} {} {}\n", info.max_length, embed.dimensions.value_or(info.dimensions),
                     special_tokens);
  if (embed.prompt_name) key += info.prompts.at(*embed.prompt_name);
  return Sha256(key);
}

std::filesystem::path CachePath(const Digest& key) {
  std::filesystem::path folder;
  if (const auto cache = Env("XDG_CACHE_HOME")) {
    folder = *cache;
  } else if (const auto home = Env("HOME")) {
    folder = std::filesystem::path(*home) / ".cache";
  } else {
    return {};
  }
  std::string name;
  for (size_t i = 0; i < 8; ++i) name += fmt::format("{:02x}", key[i]);
  return folder / "sprat/search" / (name + ".vectors");
}

class Search {
 public:
  Search(const Engine& engine, const Options& options)
      : engine_(engine),
        options_(options),
        embed_(PassageOptions(engine, options)),
        progress_("passages", false) {}

  Result<void> Run();
  Result<void> Print() const;
  // Keeps the new vectors for the next search, waiting so long for another one that is at it.
  void SaveCache(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  static EmbedOptions PassageOptions(const Engine& engine, const Options& options) {
    EmbedOptions embed{.normalize = true};  // what is ranked is the cosine
    embed.dimensions = options.model.embed.dimensions;
    embed.prompt_name = PromptNamed(engine.info(), {"document", "passage", "corpus"});
    return embed;
  }

  Result<void> OpenCache();
  Result<void> EmbedQuery();
  Result<void> AddFile(const FoundFile& file);
  void Consider(Candidate candidate);
  void Judge(Candidate candidate, std::span<const float> vector, bool cut);
  void Keep(Candidate candidate);
  Result<void> EmbedWaiting();
  void PrintSummary() const;

  const Engine& engine_;
  const Options& options_;
  const EmbedOptions embed_;
  std::optional<VectorCache> cache_;
  Progress progress_;
  std::vector<float> query_;
  std::vector<Candidate> waiting_;
  std::vector<Candidate> best_;  // at most options_.top, best first
  size_t files_ = 0, binary_ = 0, not_utf8_ = 0, too_large_ = 0;
  std::vector<std::string> unreadable_;  // why, a message each
  size_t passages_ = 0;
  bool cannot_save_ = false;  // and was said so
  Clock::time_point saved_ = Clock::now();
  Clock::duration saving_took_ = {};
};

Result<void> Search::OpenCache() {
  if (options_.no_cache) return {};
  Result<std::string> fingerprint = engine_.Fingerprint();
  if (!fingerprint.ok()) return std::move(fingerprint.error());
  const Digest key = CacheKey(engine_.info(), fingerprint.value(), embed_,
                              !options_.model.keep_special_tokens_as_text);
  cache_.emplace(CachePath(key), key, embed_.dimensions.value_or(engine_.info().dimensions));
  return {};
}

Result<void> Search::EmbedQuery() {
  EmbedOptions embed = options_.model.embed;
  embed.normalize = true;
  if (!embed.prompt && !embed.prompt_name) {
    embed.prompt_name = PromptNamed(engine_.info(), {"query"});
  }
  Result<Embeddings> row = engine_.EmbedOne(options_.query, embed);
  if (!row.ok()) return std::move(row.error()).In("the query");
  if (row.value().truncated[0] != 0) {
    Warn(fmt::format("the query has more than {} tokens and was cut", engine_.info().max_length));
  }
  query_ = std::move(row.value().values);
  return {};
}

void Search::Keep(Candidate candidate) {
  for (Candidate& kept : best_) {
    if (kept.digest == candidate.digest) {
      ++kept.copies;
      return;
    }
  }
  const auto place =
      std::upper_bound(best_.begin(), best_.end(), candidate,
                       [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  best_.insert(place, std::move(candidate));
  if (best_.size() > options_.top) best_.pop_back();
}

void Search::Judge(Candidate candidate, std::span<const float> vector, bool cut) {
  if (cut && candidate.text.size() >= kSmallestHalved) {
    const Halves halves = Halve({.text = candidate.text, .line = candidate.line});
    for (const Passage& half : {halves.first, halves.second}) {
      Consider({.path = candidate.path, .text = std::string(half.text), .line = half.line});
    }
    return;
  }
  ++passages_;
  candidate.score = std::inner_product(query_.begin(), query_.end(), vector.begin(), 0.0f);
  if (best_.size() == options_.top && candidate.score < best_.back().score) return;
  Keep(std::move(candidate));
}

void Search::Consider(Candidate candidate) {
  if (candidate.text.empty()) return;
  candidate.digest = Sha256(candidate.text);
  if (const auto entry = cache_ ? cache_->Find(candidate.digest) : std::nullopt) {
    Judge(std::move(candidate), entry->vector, entry->cut);
  } else {
    waiting_.push_back(std::move(candidate));
  }
}

Result<void> Search::EmbedWaiting() {
  while (!waiting_.empty()) {
    // Judging may add halves to waiting_: they are the next round's.
    const std::vector<Candidate> batch = std::exchange(waiting_, {});
    std::vector<std::string_view> texts;
    for (const Candidate& candidate : batch) texts.push_back(candidate.text);
    Result<Embeddings> rows = engine_.Embed(texts, embed_);
    if (!rows.ok()) return std::move(rows.error());
    for (size_t i = 0; i < batch.size(); ++i) {
      const bool cut = rows.value().truncated[i] != 0;
      if (cache_) cache_->Add(batch[i].digest, rows.value().Row(i), cut);
      Judge(batch[i], rows.value().Row(i), cut);
    }
  }
  const auto pause = std::max<Clock::duration>(kSaveEvery, kWorkPerSaving * saving_took_);
  if (Clock::now() - saved_ > pause) SaveCache(std::chrono::milliseconds(0));
  return {};
}

void Search::SaveCache(std::chrono::milliseconds patience) {
  if (!cache_ || cannot_save_) return;
  const Clock::time_point start = Clock::now();
  Result<void> saved = cache_->Save(patience);
  saved_ = Clock::now();
  saving_took_ = saved_ - start;
  if (saved.ok()) return;
  // Somebody else's turn: the vectors stay here and are saved with the next ones.
  if (saved.error().code() == ErrorCode::kOverloaded && patience == patience.zero()) return;
  cannot_save_ = true;
  progress_.Clear();
  Warn("the vectors are not kept for the next search: " + saved.error().message());
}

Result<void> Search::AddFile(const FoundFile& file) {
  std::string content;
  Result<FileKind> kind = ReadTextFile(file, content);
  if (!kind.ok()) {
    if (file.named) return std::move(kind.error());
    unreadable_.push_back(kind.error().message());
    return {};
  }
  if (kind.value() != FileKind::kText) {
    ++(kind.value() == FileKind::kBinary    ? binary_
       : kind.value() == FileKind::kNotUtf8 ? not_utf8_
                                            : too_large_);
    return {};
  }
  ++files_;
  const auto path = std::make_shared<const std::string>(file.path);
  // English text has 4 to 5 bytes a token. What is still too long shows when it is embedded.
  const size_t max_tokens = engine_.info().max_length;
  const size_t max_bytes =
      max_tokens == 0 ? kUnlimitedPassage : std::max<size_t>(3 * max_tokens, kSmallestHalved);
  for (const Passage& passage : SplitPassages(content, max_bytes)) {
    Consider({.path = path, .text = std::string(passage.text), .line = passage.line});
    if (waiting_.size() < kBatchPassages) continue;
    if (Result<void> embedded = EmbedWaiting(); !embedded.ok()) return embedded;
  }
  return {};
}

Result<void> Search::Run() {
  Result<FoundFiles> found = FindFiles(options_.paths);
  if (!found.ok()) return std::move(found.error());
  const std::vector<FoundFile>& files = found.value().files;
  unreadable_ = std::move(found.value().unreadable);
  if (Result<void> opened = OpenCache(); !opened.ok()) return opened;
  if (Result<void> embedded = EmbedQuery(); !embedded.ok()) return embedded;
  uint64_t total_bytes = 0;
  for (const FoundFile& file : files) total_bytes += file.size_bytes;
  uint64_t done_bytes = 0;
  for (const FoundFile& file : files) {
    if (Result<void> added = AddFile(file); !added.ok()) return added;
    done_bytes += file.size_bytes;
    std::optional<double> fraction;
    if (total_bytes > 0) {
      fraction = static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
    }
    progress_.Update(passages_, fraction);
  }
  if (Result<void> embedded = EmbedWaiting(); !embedded.ok()) return embedded;
  progress_.Clear();
  PrintSummary();
  if (passages_ > 0) return {};
  return Error(ErrorCode::kInvalidArgument, "nothing to search: no text in the files named");
}

void Search::PrintSummary() const {
  if (!unreadable_.empty()) {
    const auto shown = std::span(unreadable_).first(std::min(unreadable_.size(), kShownUnreadable));
    std::string text = fmt::format("not searched:\n{}", fmt::join(shown, "\n"));
    if (const size_t more = unreadable_.size() - shown.size(); more > 0) {
      text += fmt::format("\nand {} more", Grouped(more));
    }
    Warn(text);
  }
  std::string line = Counted(passages_, "passage") + " in " + Counted(files_, "file");
  const auto skipped = [&line](size_t n, const char* what) {
    if (n > 0) line += fmt::format(", {} {}", Grouped(n), what);
  };
  skipped(binary_, binary_ == 1 ? "binary file passed over" : "binary files passed over");
  skipped(not_utf8_, "not UTF-8 passed over");
  skipped(too_large_, "over 64 MB passed over");
  skipped(unreadable_.size(), "not readable");
  const std::string text = Styled("sprat: " + line, Style::kDim, ShowsColour(STDERR_FILENO)) + "\n";
  fwrite(text.data(), 1, text.size(), stderr);
}

// The lines of a passage with their indentation, each four columns in; on a terminal of so many
// columns not more than kShownLines of its lines.
std::string Shown(std::string_view passage, std::optional<size_t> columns) {
  std::string shown;
  size_t left = kShownLines;
  while (!passage.empty()) {
    const std::string_view line = passage.substr(0, passage.find('\n'));
    passage.remove_prefix(std::min(line.size() + 1, passage.size()));
    const size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
    std::string text = std::string(indent, ' ') + Printable(line);
    if (columns) {
      const size_t width = *columns - 4;
      text = Shorten(text, left * width);
      left -= std::min(left, std::max<size_t>(1, (text.size() + width - 1) / width));
    }
    shown += "    " + text + '\n';
    if (left > 0) continue;
    if (!passage.empty()) shown += "    \u2026\n";
    break;
  }
  return shown;
}

Result<void> Search::Print() const {
  Result<OutputFile> output = OutputFile::Create({});
  if (!output.ok()) return std::move(output.error());
  const bool colour = ShowsColour(STDOUT_FILENO);
  const std::optional<size_t> columns = TerminalColumns(STDOUT_FILENO);
  std::string text;
  for (const Candidate& hit : best_) {
    if (options_.json) {
      text += JsonObject()
                  .Add("score", hit.score)
                  .Add("file", *hit.path)
                  .Add("line", hit.line)
                  .Add("copies", hit.copies)
                  .Add("text", hit.text)
                  .Line();
      continue;
    }
    const std::string place = fmt::format("{}:{}", Printable(*hit.path), hit.line);
    text += fmt::format("{}  {}", Styled(fmt::format("{:.3f}", hit.score), Style::kGreen, colour),
                        Styled(place, Style::kBold, colour));
    if (hit.copies > 0) text += fmt::format("  (and {} more)", hit.copies);
    text += '\n' + Shown(hit.text, columns);
  }
  if (Result<void> written = output.value().Write(text); !written.ok()) return written;
  return output.value().Commit();
}

Result<int> RunSearch(const Options& options) {
  Result<Engine> engine = OpenEngine(options.model);
  if (!engine.ok()) return std::move(engine.error());
  Search search(engine.value(), options);
  Result<void> done = search.Run();
  if (done.ok()) done = search.Print();
  search.SaveCache(kLockPatience);  // after the answer, which need not wait, and after an error
  if (!done.ok()) return std::move(done.error());
  return 0;
}

}  // namespace

void AddSearch(CLI::App& app, Work& work) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("search", "Find the passages of files that are nearest to a query");
  command->add_option("QUERY", options->query, "What to look for, in plain words")
      ->required()
      ->check(Utf8());
  command->add_option("FILES", options->paths, "Text files, folders, or - for standard input")
      ->required()
      ->check(NotEmpty());
  command->add_option("-k,--top", options->top, "How many passages to show")
      ->type_name("K")
      ->transform(WholeNumber(1, 10000))
      ->capture_default_str();
  command->add_flag("--no-cache", options->no_cache,
                    "Neither use nor keep vectors in XDG_CACHE_HOME/sprat/search "
                    "(~/.cache/sprat/search)");
  command->add_flag("--json", options->json,
                    "An object a line: score, file, line, copies (further places), text");
  AddModelOptions(*command, options->model);
  AddVectorOptions(*command, options->model);
  AddPromptOptions(*command, options->model);
  command->footer(
      "A passage is a paragraph, or a piece of a long one. A prompt is put before the query; if\n"
      "none is given and the model has prompts named query, document or passage, they are used.\n"
      "Of a folder all regular files are searched, in its folders too, that are UTF-8 text of at\n"
      "most 64 MB; not those whose names, or whose folders' names, start with a dot. Links to\n"
      "folders are not followed.\n"
      "Examples:\n"
      "  sprat search \"how do I install it\" README.md docs\n"
      "  sprat search \"where are errors turned into exit codes\" src -k 3");
  command->callback([options, &work] {
    RefuseStandardInputTwice("FILES", options->paths);
    if (Printable(options->query).empty()) throw CLI::ValidationError("QUERY", "is empty");
    work = [options] { return RunSearch(*options); };
  });
}

}  // namespace sprat::cli
