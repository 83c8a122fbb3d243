// What the commands under `sprat ngram` share.
#ifndef SPRAT_CLI_NGRAM_OPTIONS_H_
#define SPRAT_CLI_NGRAM_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat::cli {

struct NgramModelOptions {
  std::optional<std::string> model;
  std::string tables = "mapped";
  std::string scale;  // "": what the config says
  std::string reader = "io_uring";
  NgramOptions ngram;
};

// Adds --model, --tables, --threads, --scale, --ignored-tokens and the options of the cache.
void AddNgramModelOptions(CLI::App& command, NgramModelOptions& options);

// Finds and opens the model. Errors: those of FindModel and NgramEmbedding::Open.
Result<NgramEmbedding> OpenNgramModel(const NgramModelOptions& options);

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
