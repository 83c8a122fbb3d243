// The decoders of tokenizer.json: tokens back into text.
#ifndef SPRAT_TOKENIZER_DECODER_H_
#define SPRAT_TOKENIZER_DECODER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/normalizer.h"

namespace sprat {

// A token that begins with `prefix` continues the word before it; others follow a space. cleanup:
// no space before punctuation and English contractions.
struct WordPieceDecoder {
  std::string prefix = "##";
  bool cleanup = true;
};
// `replacement` becomes a space; in the first token it vanishes if a tokenizer put it there.
struct MetaspaceDecoder {
  char32_t replacement = 0x2581;
  bool drops_first = true;
};
struct ByteLevelDecoder {};  // characters of byte_level.h become the bytes they stand for
struct SuffixDecoder {       // BPEDecoder: the end of a word becomes a space, but not the last
  std::string suffix;
};
struct ByteFallbackDecoder {};  // "<0x41>" becomes its byte
struct FuseDecoder {};          // all tokens become one
struct StripDecoder {           // drops up to `start` characters `content` in front, `stop` behind
  char32_t content = U' ';
  size_t start = 0;
  size_t stop = 0;
};

// Immutable; any thread may call.
// Source: the decoders of Hugging Face tokenizers.
class Decoder {
 public:
  using Step = std::variant<WordPieceDecoder, MetaspaceDecoder, ByteLevelDecoder, SuffixDecoder,
                            ByteFallbackDecoder, FuseDecoder, StripDecoder, Replace>;

  Decoder() = default;  // a space between tokens
  explicit Decoder(std::vector<Step> steps) : steps_(std::move(steps)) {}
  // A file whose decoder is not supported can still be used to encode; Decode says why it cannot.
  explicit Decoder(Error unsupported) : unsupported_(std::move(unsupported)) {}

  // The text that `tokens` (valid UTF-8 each) make. Bytes that are not UTF-8 together become
  // U+FFFD. Errors: kUnsupported.
  Result<std::string> Decode(std::vector<std::string> tokens) const;

 private:
  std::optional<std::vector<Step>> steps_;
  std::optional<Error> unsupported_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_DECODER_H_
