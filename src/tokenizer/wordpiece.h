// The WordPiece model: a word into the longest pieces of a vocabulary, from the left.
#ifndef SPRAT_TOKENIZER_WORDPIECE_H_
#define SPRAT_TOKENIZER_WORDPIECE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/double_array.h"
#include "tokenizer/id_buffer.h"

namespace sprat {

struct WordPieceOptions {
  std::string unknown_token = "[UNK]";
  std::string continuing_prefix = "##";
  size_t max_characters = 100;  // a longer word is unknown
};

// Immutable; any thread may call.
class WordPiece {
 public:
  // `entries` are left sorted by token. Errors: kCorrupt if the unknown token is not in the
  // vocabulary; those of DoubleArray::Build.
  static Result<WordPiece> Build(std::vector<DoubleArray::Entry>& entries,
                                 const WordPieceOptions& options);

  // Appends the ids of `word` (valid UTF-8, not empty): greedy longest match, the pieces after the
  // first looked up with the continuing prefix; one unknown id instead of everything if any part
  // of the word has no match or if it has more than max_characters.
  // Source: WordPiece::tokenize of Hugging Face tokenizers.
  void Append(std::string_view word, size_t characters, IdBuffer& ids) const {
    if (characters > options_.max_characters || !AppendPieces(word, ids)) ids.Append(unknown_id_);
  }

  uint32_t unknown_id() const { return unknown_id_; }
  const WordPieceOptions& options() const { return options_; }
  const DoubleArray& trie() const { return trie_; }

 private:
  // False, with nothing appended, if a part has no match.
  bool AppendPieces(std::string_view word, IdBuffer& ids) const;

  WordPiece(DoubleArray trie, const WordPieceOptions& options, uint32_t unknown_id);

  WordPieceOptions options_;
  DoubleArray trie_;
  DoubleArray::Cursor continuing_;  // the place after the continuing prefix
  bool continues_;                  // some token starts with the continuing prefix
  uint32_t unknown_id_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_WORDPIECE_H_
