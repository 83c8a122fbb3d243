// The models of tokenizer.json: a word into ids.
#ifndef SPRAT_TOKENIZER_MODEL_H_
#define SPRAT_TOKENIZER_MODEL_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "tokenizer/bpe.h"
#include "tokenizer/id_buffer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece.h"

namespace sprat {

using TokenModel = std::variant<WordPiece, Unigram, Bpe>;

inline const DoubleArray& TrieOf(const TokenModel& model) {
  return std::visit([](const auto& any) -> const DoubleArray& { return any.trie(); }, model);
}

// The id of what the vocabulary cannot spell, if the model has one.
inline std::optional<uint32_t> UnknownIdOf(const TokenModel& model) {
  return std::visit([](const auto& any) { return std::optional<uint32_t>(any.unknown_id()); },
                    model);
}

// Scratch of a thread.
struct ModelScratch {
  UnigramScratch unigram;
  BpeScratch bpe;
};

// Appends the ids of `word` (valid UTF-8, not empty).
inline void AppendWord(const TokenModel& model, std::string_view word, ModelScratch& scratch,
                       IdBuffer& ids) {
  if (const auto* unigram = std::get_if<Unigram>(&model)) {
    unigram->Append(word, scratch.unigram, ids);
  } else if (const auto* bpe = std::get_if<Bpe>(&model)) {
    bpe->Append(word, scratch.bpe, ids);
  } else {
    std::get_if<WordPiece>(&model)->Append(word, CountCharacters(word), ids);
  }
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_MODEL_H_
