// The normalizer of SentencePiece models: a table of replacements, carried in the file.
#ifndef SPRAT_TOKENIZER_PRECOMPILED_H_
#define SPRAT_TOKENIZER_PRECOMPILED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat {

// Immutable; any thread may call.
// Source: Precompiled of Hugging Face tokenizers, spm_precompiled.
class Precompiled {
 public:
  // `charsmap`, base64: u32 little-endian size of the trie in bytes; the trie, a double array of
  // u32 units as darts-clone writes them; then the replacements, each ended by a zero byte.
  // Errors: kCorrupt.
  static Result<Precompiled> Parse(std::string_view charsmap);

  // Appends the normalised `text` (valid UTF-8) to `out`. Each grapheme cluster of less than six
  // bytes is looked up whole, and what is not found by its single characters; the shortest key that
  // is a prefix decides, and its replacement stands for all that was looked up.
  void Normalize(std::string_view text, std::string& out) const;

  // The table as it was given, decoded.
  const std::vector<uint32_t>& trie() const { return trie_; }
  const std::string& replacements() const { return replacements_; }

 private:
  // The replacement for `text` as a whole, if some key is a prefix of it.
  std::optional<std::string_view> Find(std::string_view text) const;
  void NormalizeCluster(std::string_view cluster, std::string& out) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
  std::vector<bool> ascii_changes_;  // whether a single ASCII character has a replacement
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_PRECOMPILED_H_
