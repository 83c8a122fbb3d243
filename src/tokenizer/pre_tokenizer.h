// The pre-tokenizers of tokenizer.json: a normalised text into words.
#ifndef SPRAT_TOKENIZER_PRE_TOKENIZER_H_
#define SPRAT_TOKENIZER_PRE_TOKENIZER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/regex.h"

namespace sprat {

// What happens to the parts that match. Isolated: each is a word. Removed: none is. Contiguous:
// neighbours that match are one word. MergedWith..: each goes with its neighbour.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Splits at characters of a class.
struct CharacterSplit {
  enum class Class { kWhitespace, kPunctuation, kNumeric, kOne };
  Class kind = Class::kWhitespace;
  SplitBehavior behavior = SplitBehavior::kRemoved;
  char32_t one = 0;  // the character of kOne
};
// Splits at matches of a pattern, or between them if inverted.
struct RegexSplit {
  Regex pattern;
  std::string pattern_text;
  SplitBehavior behavior = SplitBehavior::kRemoved;
  bool inverted = false;
};
// Spaces become `replacement`, one is put in front, and words start at it.
struct Metaspace {
  enum class Prepend { kFirst, kNever, kAlways };
  char32_t replacement = 0x2581;
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};
// A space is put in front of each word that has none.
struct PrefixSpace {};
// Each byte becomes a printable character (byte_level.h).
struct BytesToCharacters {};
// Words of `length` characters.
struct FixedLength {
  size_t length = 5;
};

// A text cut into words. Sixteen bytes after the text are readable.
struct Words {
  struct Word {
    size_t begin;
    size_t end;
    bool first;  // starts where the caller's text starts
  };
  std::string text;
  std::vector<Word> words;

  std::string_view Text(const Word& word) const {
    return std::string_view(text).substr(word.begin, word.end - word.begin);
  }
};

// Scratch of a thread.
struct PreTokenizerScratch {
  struct Part {
    size_t begin;
    size_t end;
    bool matches;
  };
  std::vector<Part> parts;
  Regex::Scratch retries;
  Words other;
};

// Immutable; any thread may call.
class PreTokenizer {
 public:
  using Step = std::variant<CharacterSplit, RegexSplit, Metaspace, PrefixSpace, BytesToCharacters,
                            FixedLength>;

  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // Cuts the words in `words` further, step by step. Empty words vanish.
  void Split(PreTokenizerScratch& scratch, Words& words) const;

  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_PRE_TOKENIZER_H_
