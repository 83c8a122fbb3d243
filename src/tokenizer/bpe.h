// The BPE model: pairs of neighbours merged in the order in which training learned them.
#ifndef SPRAT_TOKENIZER_BPE_H_
#define SPRAT_TOKENIZER_BPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/double_array.h"
#include "tokenizer/id_buffer.h"

namespace sprat {

struct BpeOptions {
  std::optional<std::string> unknown_token = std::nullopt;
  std::string continuing_prefix = {};   // before every character of a word but the first
  std::string end_of_word_suffix = {};  // after the last
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a token stays whole
};

// Scratch of a thread.
struct BpeScratch {
  struct Symbol {
    uint32_t id;
    uint32_t previous;
    uint32_t next;
    bool gone;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t position;  // of its left symbol
    uint32_t id;        // of the merged token
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::string piece;
};

// Immutable; any thread may call. Source: BPE::merge_word and Word::merge_all of Hugging Face
// tokenizers.
class Bpe {
 public:
  // merges: pairs of tokens, most important first. `entries` are left sorted by token.
  // Errors: kCorrupt naming a merge whose parts or whole are not in the vocabulary, or a missing
  // unknown token; those of DoubleArray::Build.
  static Result<Bpe> Build(std::vector<DoubleArray::Entry>& entries,
                           const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                           const BpeOptions& options);

  // Appends the ids of `word` (valid UTF-8, not empty, less than 4 GB): its characters, each a
  // token, its bytes' tokens or unknown; then merges, the earliest learned first and of equal ones
  // the leftmost. Time O(n log n), memory O(n).
  void Append(std::string_view word, BpeScratch& scratch, IdBuffer& ids) const;

  std::optional<uint32_t> unknown_id() const { return unknown_id_; }
  const DoubleArray& trie() const { return trie_; }
  const BpeOptions& options() const { return options_; }

  struct Merge {
    uint64_t pair;  // left id << 32 | right id
    uint32_t rank;
    uint32_t id;
  };
  std::vector<Merge> SortedMerges() const;  // most important first

 private:
  Bpe() = default;  // filled by Build
  const Merge* FindMerge(uint32_t left, uint32_t right) const;
  void AddCharacters(std::string_view word, BpeScratch& scratch) const;
  void AddSymbol(uint32_t id, BpeScratch& scratch) const;
  void AddCandidate(uint32_t left, BpeScratch& scratch) const;
  void MergeAll(BpeScratch& scratch) const;

  BpeOptions options_;
  DoubleArray trie_;
  std::vector<Merge> merges_;  // open addressing; rank kNoRank marks a free slot
  std::optional<uint32_t> unknown_id_;
  std::vector<std::optional<uint32_t>> byte_ids_;  // of <0x00> to <0xFF>
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_BPE_H_
