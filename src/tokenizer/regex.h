// The part of regular expressions that tokenizer.json files use.
#ifndef SPRAT_TOKENIZER_REGEX_H_
#define SPRAT_TOKENIZER_REGEX_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/unicode.h"

namespace sprat {

// A set of characters.
struct CharacterSet {
  struct Item {
    char32_t first = 0;  // a range of code points,
    char32_t last = 0;
    uint32_t categories = 0;  // or bits of kCategoryNames,
    uint8_t flags = 0;        // or bits of CharacterFlag
    bool negated = false;
  };
  std::vector<Item> items;
  bool negated = false;
  std::array<bool, 128> ascii = {};  // the answer for ASCII, filled by Regex

  bool Contains(char32_t c) const { return c < 128 ? ascii[c] : Search(c); }
  bool Search(char32_t c) const;
};

// Backtracking matcher for: literals, escapes, [classes], \s \d \w \p{..} and their negations, `.`,
// groups (?:..) (..) and (?i:..), alternation, ? * + {n,m} with the suffixes ? and +, (?=..)
// (?!..), ^ and $ at the text's ends. A repeated set of characters takes constant memory.
// Immutable; any thread may call. Syntax and meaning are those of Oniguruma, which the reference
// uses.
class Regex {
 public:
  // Errors: kUnsupported naming the pattern and what in it is not supported, also if it can match
  // nothing at all (an empty string). word: what \w stands for.
  static Result<Regex> Compile(std::string_view pattern, CharacterFlag word = kPatternWord);
  // Matches exactly `text`.
  static Regex Literal(std::string_view text);

  struct Match {
    size_t begin;
    size_t end;
  };
  // A place to go back to: `pc` with the text at `at`, and after that at each character before,
  // down to `lowest`.
  struct Retry {
    uint32_t pc;
    size_t lowest;
    size_t at;
  };
  using Scratch = std::vector<Retry>;

  // The first match that begins at or after `from`. `scratch` is left as it was.
  std::optional<Match> Find(std::string_view text, size_t from, Scratch& scratch) const;

 private:
  friend class RegexCompiler;

  enum class Op : uint8_t { kSet, kSplit, kJump, kRepeat, kLook, kTextStart, kTextEnd, kMatch };
  struct Instruction {
    Op op = Op::kMatch;
    bool flag = false;    // kLook: negative; kRepeat: possessive
    uint32_t set = 0;     // kSet, kRepeat
    uint32_t first = 0;   // kSplit: tried first; kJump, kLook: where to
    uint32_t second = 0;  // kSplit: tried next; kRepeat: the least number
    uint32_t most = 0;    // kRepeat
  };
  bool Repeat(std::string_view text, const Instruction& step, uint32_t next_pc, size_t& at,
              Scratch& retries) const;
  std::optional<size_t> MatchAt(std::string_view text, size_t at, uint32_t pc,
                                Scratch& retries) const;

  std::vector<Instruction> program_;
  std::vector<CharacterSet> sets_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_REGEX_H_
