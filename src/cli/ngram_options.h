// What the commands under `sprat ngram` share.
#ifndef SPRAT_CLI_NGRAM_OPTIONS_H_
#define SPRAT_CLI_NGRAM_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "sprat/ngram.h"
#include "sprat/ngram_gpu.h"
#include "sprat/result.h"

namespace sprat::cli {

struct NgramModelOptions {
  std::optional<std::string> model;
  std::string tables = "mapped";
  std::string scale;  // "": what the config says
  std::string reader = "io_uring";
  std::string device = "cpu";
  NgramOptions ngram;
};

// Adds --model, --scale and --ignored-tokens: what ids depend on.
void AddNgramModel(CLI::App& command, NgramModelOptions& options);

// Adds --tables, --threads and the options of the cache, which need --tables cached.
void AddNgramTables(CLI::App& command, NgramModelOptions& options);

// Adds --device.
void AddNgramDevice(CLI::App& command, NgramModelOptions& options);

// Finds and opens the model. Errors: those of FindModel and NgramEmbedding::Open.
Result<NgramEmbedding> OpenNgramModel(const NgramModelOptions& options);

// Finds the model and says what it is. Errors: those of FindModel and NgramEmbedding::Describe.
Result<NgramInfo> DescribeNgramModel(const NgramModelOptions& options);

// A model on the device that --device names.
class NgramRunner {
 public:
  // Errors: as OpenNgramModel; those of NgramGpu::Open. For want of a word table the message ends
  // with `without_word_table`, which says what to do then.
  static Result<NgramRunner> Open(const NgramModelOptions& options,
                                  std::string_view without_word_table);

  Result<void> EmbedBatch(std::span<const NgramPiece> pieces, std::span<const float> word,
                          std::span<float> out);
  const NgramInfo& info() const { return gpu_ ? gpu_->info() : cpu_->info(); }
  NgramCounters counters() const { return gpu_ ? NgramCounters{} : cpu_->counters(); }
  std::string device_name() const;  // of the GPU, or of the CPU

 private:
  static Result<NgramRunner> OpenOn(const std::string& device,
                                    const std::filesystem::path& directory,
                                    const NgramOptions& ngram);

  std::optional<NgramEmbedding> cpu_;
  std::optional<NgramGpu> gpu_;
};

// "11 523 9001", "11,523,9001" or "[11, 523, 9001]": token ids. Errors: kInvalidArgument naming
// what is no id.
Result<std::vector<uint32_t>> ParseTokenIds(std::string_view text);

// Sequences of token ids, a line each, of the files in order ("-", or no file: standard input).
// Errors name file and line.
Result<std::vector<std::vector<uint32_t>>> ReadSequences(const std::vector<std::string>& paths);

// Adds the subcommand that measures.
void AddNgramBench(CLI::App& ngram, Work& work);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_NGRAM_OPTIONS_H_
