// The Unigram model: the pieces whose log-probabilities add up highest.
#ifndef SPRAT_TOKENIZER_UNIGRAM_H_
#define SPRAT_TOKENIZER_UNIGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/double_array.h"
#include "tokenizer/id_buffer.h"

namespace sprat {

// Scratch of a thread.
struct UnigramScratch {
  // The last piece of the best way to a place in the word.
  struct Way {
    uint32_t bytes;  // 0: no way leads here
    uint32_t id;
  };
  std::vector<Way> ways;
  std::vector<double> scores;  // of the ways to the last places reached, in a ring
  std::vector<size_t> places;
};

// Immutable; any thread may call. Source: Unigram::encode_optimized and tokenize of Hugging Face
// tokenizers.
class Unigram {
 public:
  // entries: piece and id, the id being its index in `scores` (log-probabilities); empty pieces are
  // left out by the caller; left sorted by piece. Errors: kCorrupt if there is no piece
  // `unknown_id`.
  static Result<Unigram> Build(std::vector<DoubleArray::Entry>& entries, std::vector<double> scores,
                               uint32_t unknown_id, bool byte_fallback);

  // Appends the ids of `word` (valid UTF-8). Of the ways to cut it into pieces and unknown
  // characters (score: the smallest of all - 10) the one with the highest sum (f64, from the left;
  // of equal ones the one found first) counts. Neighbouring unknowns are taken together and become
  // the piece with that text if there is one, else the tokens <0x..> of their bytes if asked for
  // and all are known, else the unknown id.
  // Time: linear in the bytes. Memory: 16 KB and what the longest piece needs, unless the best way
  // stays open for longer ("qqqq..." with a piece "qq"): then at most 16 bytes for each of the
  // word, given back afterwards.
  void Append(std::string_view word, UnigramScratch& scratch, IdBuffer& ids) const;

  const DoubleArray& trie() const { return trie_; }
  const std::vector<double>& scores() const { return scores_; }
  uint32_t unknown_id() const { return unknown_id_; }
  bool byte_fallback() const { return byte_fallback_; }

 private:
  Unigram() = default;  // filled by Build
  void AppendUnknown(std::string_view text, IdBuffer& ids) const;

  DoubleArray trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  uint32_t unknown_id_ = 0;
  bool byte_fallback_ = false;
  std::vector<std::optional<uint32_t>> byte_ids_;  // of <0x00> to <0xFF>
  size_t longest_ = 4;  // bytes of the longest piece, at least a character
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_UNIGRAM_H_
