// The normalizers of tokenizer.json, applied one after the other.
#ifndef SPRAT_TOKENIZER_NORMALIZER_H_
#define SPRAT_TOKENIZER_NORMALIZER_H_

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/bert.h"
#include "tokenizer/precompiled.h"
#include "tokenizer/regex.h"

namespace sprat {

// NFC, NFD, NFKC, NFKD.
struct UnicodeForm {
  bool compatible = false;
  bool compose = false;
};
struct Lowercase {};
struct StripAccents {};  // drops all marks; decomposes nothing
struct Nmt {};           // the clean-up of Google's NMT: some controls vanish, others become spaces
struct ByteLevelNormalizer {};
struct Strip {
  bool left = true;
  bool right = true;
};
struct Prepend {
  std::string text;  // before anything that is not empty
};
struct Replace {
  Regex pattern;
  std::string pattern_text;
  std::string content;
};

// Scratch of a thread.
struct NormalizerScratch {
  std::vector<PendingMark> marks;
  std::vector<char32_t> characters;
  Regex::Scratch retries;
  std::string other;
};

// Immutable; any thread may call.
class Normalizer {
 public:
  using Step = std::variant<BertNormalizer, Precompiled, UnicodeForm, Lowercase, StripAccents, Nmt,
                            ByteLevelNormalizer, Strip, Prepend, Replace>;

  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // Replaces `out` by the normalised `text` (valid UTF-8). The result says whether characters at
  // the start of the text were dropped (Metaspace's scheme `first` asks).
  bool Normalize(std::string_view text, NormalizerScratch& scratch, std::string& out) const;

  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_NORMALIZER_H_
