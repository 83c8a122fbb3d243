// Text to token ids, exactly as Hugging Face `tokenizers` does it for the same files.
#ifndef SPRAT_TOKENIZER_TOKENIZER_H_
#define SPRAT_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat {

struct TokenizeOptions {
  size_t max_tokens = 0;           // special tokens included; 0: no limit
  bool add_special_tokens = true;  // [CLS] text [SEP]
  bool parse_special_tokens =
      true;  // "[SEP]" typed in the text becomes id 102, as in the reference
};

// What one text became, apart from the ids.
struct TokenizedLength {
  size_t tokens = 0;       // ids appended
  bool truncated = false;  // some of the text's ids were left out
};

// What a tokenizer.json says about long texts.
struct FileTruncation {
  size_t max_tokens;
  bool keeps_end;  // "direction": "Left"
};

// Immutable after loading; every method may be called from any thread at once.
class Tokenizer {
 public:
  // Reads `directory`/tokenizer.json if there is one, else vocab.txt with tokenizer_config.json.
  // Padding and truncation written in tokenizer.json are ignored: the limit travels with the call;
  // Truncation() tells it to those who follow it.
  // Errors: kNotFound naming the file that is missing; kUnsupported naming a component by place,
  // type and what is supported; kCorrupt with file, key and value.
  static Result<Tokenizer> Open(const std::filesystem::path& directory);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Appends the ids of `text` to `ids`. Time is linear in the bytes (beyond the limit they are only
  // checked), memory beyond the ids is bounded, and after the first texts nothing is allocated.
  // Errors, after which nothing was appended: kInvalidArgument naming the offset of the first byte
  // that is not UTF-8, or a limit that has no room for the special tokens.
  Result<TokenizedLength> Tokenize(std::string_view text, const TokenizeOptions& options,
                                   std::vector<uint32_t>& ids) const;

  // The text that `ids` make, as the file's decoder says (a space between tokens if it names none).
  // Ids that stand for no token are left out, as in the reference; special tokens are if
  // `skip_special_tokens`. Errors: kUnsupported naming the decoder.
  Result<std::string> Decode(std::span<const uint32_t> ids, bool skip_special_tokens) const;

  // The token's text as written in the vocabulary; nullopt if there is no such id.
  std::optional<std::string_view> Token(uint32_t id) const;

  // The id that stands for what the vocabulary cannot spell: `unk_token` of WordPiece and BPE,
  // `unk_id` of Unigram; nullopt if the file names none.
  std::optional<uint32_t> UnknownId() const;

  // `truncation` of tokenizer.json; nullopt if it is null or not there.
  std::optional<FileTruncation> Truncation() const;

  // One more than the largest id that Tokenize can produce.
  size_t vocabulary_size() const;

  // The behaviour as bytes, the same for files that tokenize every text alike (vocab.txt or the
  // tokenizer.json made from it): what the model fingerprint hashes.
  std::string Behaviour() const;

 private:
  class Pipeline;
  explicit Tokenizer(std::unique_ptr<const Pipeline> pipeline);
  std::unique_ptr<const Pipeline> pipeline_;
};

// The offset of the first byte of `text` that does not belong to valid UTF-8 (RFC 3629: no overlong
// forms, no surrogates, nothing above U+10FFFF), or nullopt if all of it is valid.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_TOKENIZER_H_
