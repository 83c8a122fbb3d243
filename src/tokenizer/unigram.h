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
  // The best way to a place in the word.
  struct Node {
    double score;
    size_t start;  // where its last piece starts; kNowhere if no way leads here
    uint32_t id;   // of that piece
  };
  struct Piece {
    size_t begin;
    size_t end;
    uint32_t id;
  };
  std::vector<Node> nodes;
  std::vector<Piece> pieces;
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
  // Memory: O(kWindow) unless the best way stays open for longer.
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
