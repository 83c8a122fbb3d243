// BertNormalizer, BertPreTokenizer and WordPiece in one pass over a text.
#ifndef SPRAT_TOKENIZER_BERT_ENCODER_H_
#define SPRAT_TOKENIZER_BERT_ENCODER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bert.h"
#include "tokenizer/id_buffer.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/wordpiece.h"

namespace sprat {

// What a thread needs while it encodes; kept between texts.
struct BertScratch {
  WordCache cache;
  std::string word;  // the normalised word that is being collected
  std::vector<PendingMark> marks;
};

// Splits a text at ASCII white space and punctuation, 64 bytes at a time. What lies between is a
// chunk, and every component treats chunks independently: no rule looks across an ASCII separator.
// Short chunks that were seen before come from the cache, all others go through normalizer,
// pre-tokenizer and model. The ids are the same with and without the cache.
class BertEncoder {
 public:
  // Both must outlive the encoder.
  BertEncoder(const BertNormalizer& normalizer, const WordPiece& model);

  // Appends the ids of `text` (valid UTF-8), and stops early once there are more than `limit` ids
  // in `ids`. Memory: the scratch's cache and one word of at most max_characters.
  void Encode(std::string_view text, size_t limit, BertScratch& scratch, IdBuffer& ids) const;

 private:
  // `chunk` is at most WordKey::kMaxBytes long, and 16 bytes are readable there.
  void EncodeShortChunk(std::string_view chunk, BertScratch& scratch, IdBuffer& ids) const;
  void EncodeChunk(std::string_view chunk, size_t limit, BertScratch& scratch, IdBuffer& ids) const;

  const BertNormalizer& normalizer_;
  const WordPiece& model_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_BERT_ENCODER_H_
