// Where the files of a static model are and what they say beside the table.
// Source: MinishLab/model2vec 0.10.0 (persistence), sentence-transformers (StaticEmbedding).
#ifndef SPRAT_STATIC_MODEL_STATIC_CONFIG_H_
#define SPRAT_STATIC_MODEL_STATIC_CONFIG_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "sprat/result.h"

namespace sprat {

// The three layouts, tried in this order: config.json beside model.safetensors and tokenizer.json;
// config_sentence_transformers.json beside them; config_sentence_transformers.json with the two
// others in 0_StaticEmbedding/.
struct StaticLayout {
  std::filesystem::path config;     // the file
  std::filesystem::path directory;  // of model.safetensors and tokenizer.json
};

// nullopt if no layout is complete.
std::optional<StaticLayout> FindStaticLayout(const std::filesystem::path& directory);

// kNotFound naming the file that is missing, if `directory` is a static model's but for that: if
// its config.json names no other model_type. Read as an encoder's it would only say that it is
// none.
Result<void> CheckStaticFiles(const std::filesystem::path& directory);

struct StaticConfig {
  bool normalize = false;                  // a missing key means false
  std::optional<size_t> max_length = 512;  // tokens; null: no limit; a missing key means 512
};

// Errors: kCorrupt naming file, key, value and what was expected.
Result<StaticConfig> ReadStaticConfig(const StaticLayout& layout);

// What sentence-transformers goes by instead of the configuration: whether directory/modules.json
// lists a Normalize module; nullopt if there is no such file. Errors: kCorrupt.
Result<std::optional<bool>> ListsNormalize(const std::filesystem::path& directory);

// How much of a text is tokenized at all: max_length times the median length of the vocabulary's
// entries in code points, the mean of the two middle ones rounded down for an even number of them.
//   lengths: of all entries; reordered.
size_t MedianLength(std::vector<size_t>& lengths);

}  // namespace sprat

#endif  // SPRAT_STATIC_MODEL_STATIC_CONFIG_H_
