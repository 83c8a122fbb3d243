// Normalizer, pre-tokenizer and model together: a text between added tokens into ids.
#ifndef SPRAT_TOKENIZER_ENCODER_H_
#define SPRAT_TOKENIZER_ENCODER_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bert_words.h"
#include "tokenizer/id_buffer.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/parts.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/word_cache.h"

namespace sprat {

// What a thread needs while it encodes; kept between texts.
struct EncoderScratch {
  IdBuffer ids;
  NormalizerScratch normalizer;
  PreTokenizerScratch pre_tokenizer;
  ModelScratch model;
  std::string normalized;
  Words words;
  std::string word;
  WordCache chunk_cache;  // raw chunks
  WordCache word_cache;   // words that pre-tokenizers made

  // Gives back what a large text needed; the caches stay.
  void ReleaseLargeBuffers() {
    ids = {};
    normalizer = {};
    pre_tokenizer = {};
    model = {};
    normalized = {};
    words = {};
  }
};

// Bytes of a text after which scratch memory is not kept.
inline constexpr size_t kLargeText{size_t{1} << 20};

// How to look at a text.
struct EncodeOptions {
  bool parse_special_tokens = true;
  size_t limit = 0;  // stop early once there are more ids than this
};

// The text between added tokens of the raw kind. `parts` must outlive the encoder; immutable, any
// thread may call.
//
// Where no component looks across ASCII white space (nor, for BERT's, across ASCII punctuation),
// the text is cut there into chunks, and the ids of short chunks are remembered. Everything else
// goes through the components as the file lists them. The ids are the same.
class Encoder {
 public:
  Encoder(const TokenizerParts& parts, const AddedTokens& normalized_added);

  // Appends the ids of `text` (valid UTF-8) to scratch.ids. at_start: the caller's text starts
  // here.
  void Encode(std::string_view text, bool at_start, const EncodeOptions& options,
              EncoderScratch& scratch) const;

 private:
  enum class Path { kBert, kChunks, kWhole };

  Path ChoosePath() const;
  void FindPlainBytes();
  bool SeparatorsStaySpace() const;
  void EncodeBert(std::string_view text, const EncodeOptions& options,
                  EncoderScratch& scratch) const;
  // False if a chunk cannot be seen alone; then some ids may have been appended.
  bool EncodeChunks(std::string_view text, const EncodeOptions& options,
                    EncoderScratch& scratch) const;
  bool EncodeChunk(std::string_view chunk, EncoderScratch& scratch) const;
  void EncodeWhole(std::string_view text, bool at_start, const EncodeOptions& options,
                   EncoderScratch& scratch) const;
  void EncodeNormalized(std::string_view text, bool first, const EncodeOptions& options,
                        EncoderScratch& scratch) const;

  const TokenizerParts& parts_;
  const AddedTokens& normalized_added_;  // looked for in the normalised text
  const Path path_;
  std::optional<BertTable> bert_table_;  // for Path::kBert
  // Bytes that make a chunk of themselves: where all are plain, the chunk is a word as it stands,
  // with plain_prefix_ before it.
  std::array<bool, 256> plain_ = {};
  std::string plain_prefix_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_ENCODER_H_
