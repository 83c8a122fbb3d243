#include "cli/ngram_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "cli/input_file.h"
#include "cli/line_reader.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "cli/terminal.h"
#include "cli/values.h"

namespace sprat::cli {
namespace {

constexpr uint64_t kMaxCacheBytes{uint64_t{1} << 46};

// N of "cuda:N", 0 of "cuda".
int DeviceIndex(std::string_view device) {
  int index = 0;
  const std::string_view number = device.substr(std::min<size_t>(device.size(), 5));
  std::from_chars(number.data(), number.data() + number.size(), index);
  return index;
}

std::string CheckDevice(const std::string& device) {
  const bool numbered = device.starts_with("cuda:") && device.size() > 5 && device.size() < 13 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device == "cpu" || device == "cuda" || numbered) return {};
  return fmt::format("'{}' is not a device; devices are cpu, cuda and cuda:N", device);
}

std::string CheckRanges(const std::string& ranges) {
  const Result<void> checked = CheckTokenRanges(ranges);
  return checked.ok() ? std::string() : std::string(checked.error().message());
}

struct Found {
  std::filesystem::path directory;
  NgramOptions ngram;
};

Result<Found> Find(const NgramModelOptions& options) {
  Found found;
  found.ngram = options.ngram;
  Result<NgramTables> tables = ParseNgramTables(options.tables);
  if (!tables.ok()) return std::move(tables.error());
  found.ngram.tables = tables.value();
  found.ngram.io_uring = options.reader == "io_uring";
  if (!options.scale.empty()) {
    Result<NgramScale> scale = ParseNgramScale(options.scale);
    if (!scale.ok()) return std::move(scale.error());
    found.ngram.scale = scale.value();
  }
  Result<std::filesystem::path> directory = FindModel(options.model, Env);
  if (!directory.ok()) return std::move(directory.error());
  found.directory = std::move(directory).value();
  return found;
}

}  // namespace

void AddNgramModel(CLI::App& command, NgramModelOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* what, const char* type) {
    return command.add_option(name, value, what)->type_name(type)->group("Model");
  };
  add("-m,--model", options.model, "Directory or name of the model", "NAME")->check(NotEmpty());
  add("--scale", options.scale, "How the word row counts. Default: what the config says",
      "average|fixed|full")
      ->check(OneOf({"average", "fixed", "full"}));
  add("--ignored-tokens", options.ngram.ignored_tokens,
      "Half-open ranges such as 0:4,36:55 in place of the config's", "RANGES")
      ->check(CLI::Validator(CheckRanges, ""));
}

void AddNgramTables(CLI::App& command, NgramModelOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* what, const char* type) {
    return command.add_option(name, value, what)
        ->type_name(type)
        ->group("Model")
        ->capture_default_str();
  };
  add("--tables", options.tables, "Where the table rows are", "mapped|resident|fp8|cached")
      ->check(OneOf({"mapped", "resident", "fp8", "cached"}));
  add("--threads", options.ngram.threads, "Compute threads; 0: one for each available core", "N")
      ->transform(WholeNumber(0, 1024));
  const std::vector<CLI::Option*> of_the_cache = {
      add("--cache-bytes", options.ngram.cache_bytes, "Arena of --tables cached", "N")
          ->transform(WholeNumber(1, kMaxCacheBytes)),
      add("--queue-depth", options.ngram.queue_depth, "Reads in flight of --tables cached", "N")
          ->transform(WholeNumber(1, 4096)),
      add("--reader", options.reader, "How --tables cached reads", "io_uring|pread")
          ->check(OneOf({"io_uring", "pread"}))};
  command.parse_complete_callback([of_the_cache, &options] {
    for (const CLI::Option* option : of_the_cache) {
      if (option->count() == 0 || options.tables == "cached") continue;
      throw CLI::ValidationError(
          option->get_name(),
          fmt::format("has no effect on {} tables; give --tables cached as well", options.tables));
    }
  });
}

void AddNgramDevice(CLI::App& command, NgramModelOptions& options) {
  command
      .add_option("--device", options.device,
                  "cpu, cuda or cuda:N. On a GPU the tables are in its memory, BF16 or FP8")
      ->type_name("DEVICE")
      ->group("Model")
      ->check(CLI::Validator(CheckDevice, ""))
      ->capture_default_str();
}

Result<NgramEmbedding> OpenNgramModel(const NgramModelOptions& options) {
  Result<Found> found = Find(options);
  if (!found.ok()) return std::move(found.error());
  return NgramEmbedding::Open(found.value().directory, found.value().ngram);
}

Result<NgramInfo> DescribeNgramModel(const NgramModelOptions& options) {
  Result<Found> found = Find(options);
  if (!found.ok()) return std::move(found.error());
  return NgramEmbedding::Describe(found.value().directory, found.value().ngram);
}

Result<NgramRunner> NgramRunner::Open(const NgramModelOptions& options,
                                      std::string_view without_word_table) {
  Result<Found> found = Find(options);
  if (!found.ok()) return std::move(found.error());
  auto& [directory, ngram] = found.value();
  Result<NgramRunner> runner = OpenOn(options.device, directory, ngram);
  if (runner.ok() || !ngram.word_table) return runner;
  ngram.word_table = false;
  const Result<NgramInfo> info = NgramEmbedding::Describe(directory, ngram);
  if (!info.ok() || info.value().word_table) return runner;
  return Error(runner.error().code(),
               fmt::format("{}\n{}", runner.error().message(), without_word_table));
}

Result<NgramRunner> NgramRunner::OpenOn(const std::string& device,
                                        const std::filesystem::path& directory,
                                        const NgramOptions& ngram) {
  NgramRunner runner;
  if (device == "cpu") {
    Result<NgramEmbedding> cpu = NgramEmbedding::Open(directory, ngram);
    if (!cpu.ok()) return std::move(cpu.error());
    runner.cpu_.emplace(std::move(cpu).value());
    return runner;
  }
  Result<NgramGpu> gpu = NgramGpu::Open(directory, ngram, DeviceIndex(device));
  if (!gpu.ok()) return std::move(gpu.error());
  runner.gpu_.emplace(std::move(gpu).value());
  return runner;
}

Result<void> NgramRunner::EmbedBatch(std::span<const NgramPiece> pieces,
                                     std::span<const float> word, std::span<float> out) {
  return gpu_ ? gpu_->EmbedBatch(pieces, word, out) : cpu_->EmbedBatch(pieces, word, out);
}

std::string NgramRunner::device_name() const { return gpu_ ? gpu_->device_name() : CpuName(); }

Result<std::vector<uint32_t>> ParseTokenIds(std::string_view text) {
  constexpr std::string_view kBetween{" \t,[]"};
  std::vector<uint32_t> ids;
  for (size_t at = text.find_first_not_of(kBetween); at != text.npos;
       at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    uint32_t id = 0;
    const std::from_chars_result parsed =
        std::from_chars(word.data(), word.data() + word.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) {
      return Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a token id", word));
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

Result<std::vector<std::vector<uint32_t>>> ReadSequences(const std::vector<std::string>& paths) {
  std::vector<std::vector<uint32_t>> sequences;
  for (const std::string& path : paths.empty() ? std::vector<std::string>{"-"} : paths) {
    Result<InputFile> file = InputFile::Open(path);
    if (!file.ok()) return std::move(file.error());
    LineReader reader(std::move(file).value());
    for (;;) {
      Result<std::optional<std::string_view>> line = reader.Next();
      if (!line.ok()) return std::move(line.error());
      if (!line.value()) break;
      Result<std::vector<uint32_t>> ids = ParseTokenIds(*line.value());
      if (!ids.ok()) {
        return std::move(ids.error())
            .In(fmt::format("{}: line {}", reader.file().name(), reader.number()));
      }
      sequences.push_back(std::move(ids).value());
    }
  }
  return sequences;
}

}  // namespace sprat::cli
