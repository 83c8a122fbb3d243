// Parses a pattern and writes the program that regex.cc runs.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {

namespace {

constexpr uint32_t kUnbounded{std::numeric_limits<uint32_t>::max()};
constexpr uint32_t kMaxCopies{64};  // of a repeated group
constexpr size_t kMaxProgram{1 << 14};
constexpr int kMaxDepth{50};  // of groups in groups

CharacterSet::Item RangeItem(char32_t first, char32_t last) {
  return {.first = first, .last = last};
}

}  // namespace

// Recursive descent. After an error, `failure_` is set and the rest is skipped.
class RegexCompiler {
 public:
  RegexCompiler(std::string_view pattern, CharacterFlag word) : pattern_(pattern), word_(word) {}

  Result<Regex> Compile() {
    if (FindInvalidUtf8(pattern_)) Fail("bytes that are not UTF-8");
    size_t shortest = Alternatives(0);
    if (at_ < pattern_.size()) Fail("an unmatched ')'");
    if (shortest == 0) Fail("a pattern that can match an empty string");
    Emit({.op = Regex::Op::kMatch});
    if (!failure_.empty()) {
      return Error(ErrorCode::kUnsupported,
                   fmt::format("regular expression '{}': {} is not supported", pattern_, failure_));
    }
    for (CharacterSet& set : regex_.sets_) {
      for (char32_t c = 0; c < 128; ++c) set.ascii[c] = set.Search(c);
    }
    return std::move(regex_);
  }

 private:
  using Op = Regex::Op;
  using Instruction = Regex::Instruction;

  void Fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
    at_ = pattern_.size();
  }

  bool AtEnd() const { return at_ >= pattern_.size(); }
  bool Next(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  char32_t Take() {
    if (AtEnd()) {
      Fail("an end within an expression");
      return 0;
    }
    const Utf8Character next = DecodeUtf8(pattern_.data() + at_);
    at_ += next.size_bytes;
    return next.code_point;
  }

  uint32_t Emit(const Instruction& instruction) {
    if (regex_.program_.size() >= kMaxProgram) Fail("so long a pattern");
    regex_.program_.push_back(instruction);
    return static_cast<uint32_t>(regex_.program_.size() - 1);
  }
  uint32_t Here() const { return static_cast<uint32_t>(regex_.program_.size()); }
  uint32_t AddSet(CharacterSet set) {
    regex_.sets_.push_back(std::move(set));
    return static_cast<uint32_t>(regex_.sets_.size() - 1);
  }

  // a|b|c. Returns the least number of characters that a match takes (as do the functions below).
  size_t Alternatives(int depth) {
    if (depth > kMaxDepth) Fail("so deep a nesting");
    std::vector<uint32_t> jumps;
    size_t shortest = std::numeric_limits<size_t>::max();
    while (true) {
      const uint32_t start = Here();
      const size_t length = Concatenation(depth);
      shortest = std::min(shortest, length);
      if (!Next("|")) break;
      InsertSplit(start, start + 1, Here() + 2);
      jumps.push_back(Emit({.op = Op::kJump}));
    }
    for (const uint32_t jump : jumps) regex_.program_[jump].first = Here();
    return shortest;
  }

  size_t Concatenation(int depth) {
    size_t length = 0;
    previous_folded_ = 0;
    while (!AtEnd() && pattern_[at_] != '|' && pattern_[at_] != ')') length += Repeated(depth);
    return length;
  }

  // Puts a split before what was emitted since `start`, whose inner targets move by one.
  void InsertSplit(uint32_t start, uint32_t first, uint32_t second) {
    if (!failure_.empty()) return;
    for (size_t i = start; i < regex_.program_.size(); ++i) {
      Instruction& moved = regex_.program_[i];
      if (moved.op == Op::kSplit || moved.op == Op::kJump || moved.op == Op::kLook) ++moved.first;
      if (moved.op == Op::kSplit) ++moved.second;
    }
    regex_.program_.insert(regex_.program_.begin() + start,
                           {.op = Op::kSplit, .first = first, .second = second});
  }

  // An atom and the quantifier after it.
  size_t Repeated(int depth) {
    const uint32_t start = Here();
    const size_t length = Atom(depth);
    uint32_t least = 1;
    uint32_t most = 1;
    if (!Quantifier(least, most)) return length;
    previous_folded_ = 0;
    const bool lazy = Next("?");
    const bool possessive = !lazy && Next("+");
    if (!failure_.empty()) return length;
    if (Here() == start + 1 && regex_.program_[start].op == Op::kSet && !lazy) {
      regex_.program_[start].op = Op::kRepeat;
      regex_.program_[start].flag = possessive;
      regex_.program_[start].second = least;
      regex_.program_[start].most = most;
    } else if (possessive || length == 0) {
      Fail("this repetition of a group");
    } else {
      RepeatGroup(start, least, most, lazy);
    }
    return length * least;
  }

  bool Quantifier(uint32_t& least, uint32_t& most) {
    if (Next("?")) {
      least = 0;
    } else if (Next("*")) {
      least = 0;
      most = kUnbounded;
    } else if (Next("+")) {
      most = kUnbounded;
    } else if (at_ + 1 < pattern_.size() && pattern_[at_] == '{' && pattern_[at_ + 1] >= '0' &&
               pattern_[at_ + 1] <= '9') {
      ++at_;
      least = Number();
      most = least;
      if (Next(",")) most = pattern_.substr(at_, 1) == "}" ? kUnbounded : Number();
      if (!Next("}") || most < least) Fail("this repetition");
    } else {
      return false;
    }
    return true;
  }

  uint32_t Number() {
    uint32_t number = 0;
    while (!AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '9' && number < 100000) {
      number = number * 10 + static_cast<uint32_t>(pattern_[at_++] - '0');
    }
    return number;
  }

  // Copies the instructions since `start`: `least` times, then optional ones or a loop.
  void RepeatGroup(uint32_t start, uint32_t least, uint32_t most, bool lazy) {
    if (least > kMaxCopies || (most != kUnbounded && most > kMaxCopies))
      return Fail("so large a repetition");
    const std::vector<Instruction> group(regex_.program_.begin() + start, regex_.program_.end());
    regex_.program_.resize(start);
    const auto split = [lazy](uint32_t go_on, uint32_t leave) {
      return Instruction{
          .op = Op::kSplit, .first = lazy ? leave : go_on, .second = lazy ? go_on : leave};
    };
    for (uint32_t i = 0; i < least; ++i) Copy(group, start);
    const auto size = static_cast<uint32_t>(group.size());
    if (most == kUnbounded) {
      const uint32_t loop = Emit(split(Here() + 1, Here() + size + 2));
      Copy(group, start);
      Emit({.op = Op::kJump, .first = loop});
      return;
    }
    const uint32_t end = Here() + (most - least) * (size + 1);
    for (uint32_t i = least; i < most; ++i) {
      Emit(split(Here() + 1, end));
      Copy(group, start);
    }
  }

  void Copy(const std::vector<Instruction>& group, uint32_t start) {
    const uint32_t shift = Here() - start;
    for (Instruction instruction : group) {
      if (instruction.op == Op::kSplit || instruction.op == Op::kJump ||
          instruction.op == Op::kLook) {
        instruction.first += shift;
      }
      if (instruction.op == Op::kSplit) instruction.second += shift;
      Emit(instruction);
    }
  }

  size_t Atom(int depth) {
    if (Next("(")) return Group(depth);
    if (Next("^")) return Emit({.op = Op::kTextStart}), 0;
    if (Next("$")) return Emit({.op = Op::kTextEnd}), 0;
    CharacterSet set;
    if (Next("[")) {
      set = Class(depth);
    } else if (Next(".")) {
      set.items = {RangeItem('\n', '\n')};
      set.negated = true;
    } else if (Next("\\")) {
      set.items = {Escape()};
      AddWordCharacters(set);
    } else {
      const char32_t c = Take();
      if (c == '*' || c == '+' || c == '?') Fail("a repetition of nothing");
      set.items = {RangeItem(c, c)};
    }
    if (fold_case_) FoldCase(set);
    Emit({.op = Op::kSet, .set = AddSet(std::move(set))});
    return 1;
  }

  // Outside a class, Oniguruma's \w also has six numbers of Latin-1 that [\w] has not.
  static void AddWordCharacters(CharacterSet& set) {
    if (set.items[0].flags != kPatternWord) return;
    set.negated = set.items[0].negated;
    set.items = {{.flags = kPatternWord},
                 RangeItem(0xB2, 0xB3),
                 RangeItem(0xB9, 0xB9),
                 RangeItem(0xBC, 0xBE)};
  }

  size_t Group(int depth) {
    const bool folded_outside = fold_case_;
    const bool negative = Next("?!");
    if (negative || Next("?=")) {
      const uint32_t look = Emit({.op = Op::kLook, .flag = negative});
      Alternatives(depth + 1);
      Emit({.op = Op::kMatch});
      if (failure_.empty()) regex_.program_[look].first = Here();
      if (!Next(")")) Fail("a group without end");
      return 0;
    }
    if (Next("?i:")) {
      fold_case_ = true;
    } else if (!Next("?:") && Next("?")) {
      Fail("a group of this kind");
    }
    const size_t length = Alternatives(depth + 1);
    if (!Next(")")) Fail("a group without end");
    fold_case_ = folded_outside;
    return length;
  }

  CharacterSet Class(int depth) {
    CharacterSet set;
    set.negated = Next("^");
    for (bool first = true; !Next("]"); first = false) {
      if (AtEnd()) {
        Fail("a class without end");
        break;
      }
      if (pattern_[at_] == '[' || pattern_.substr(at_, 2) == "&&" ||
          (first && pattern_[at_] == ']')) {
        Fail("a class of this kind");
      }
      CharacterSet::Item item = Next("\\") ? Escape() : SingleItem();
      const bool single = item.categories == 0 && item.flags == 0 && !item.negated;
      if (single && pattern_.substr(at_, 1) == "-" && pattern_.substr(at_ + 1, 1) != "]") {
        ++at_;
        const CharacterSet::Item last = Next("\\") ? Escape() : SingleItem();
        if (last.categories != 0 || last.flags != 0 || last.first < item.first) Fail("this range");
        item.last = last.first;
      }
      set.items.push_back(item);
    }
    static_cast<void>(depth);
    return set;
  }

  CharacterSet::Item SingleItem() {
    const char32_t c = Take();
    return RangeItem(c, c);
  }

  // What follows a backslash.
  CharacterSet::Item Escape() {
    const char32_t c = Take();
    switch (c) {
      case 'n':
        return RangeItem('\n', '\n');
      case 'r':
        return RangeItem('\r', '\r');
      case 't':
        return RangeItem('\t', '\t');
      case 'f':
        return RangeItem('\f', '\f');
      case 'v':
        return RangeItem('\v', '\v');
      case 's':
        return {.flags = kWhitespace};
      case 'S':
        return {.flags = kWhitespace, .negated = true};
      case 'w':
        return {.flags = word_};
      case 'W':
        return {.flags = word_, .negated = true};
      case 'd':
        return {.categories = Categories("Nd")};
      case 'D':
        return {.categories = Categories("Nd"), .negated = true};
      case 'p':
        return Property(false);
      case 'P':
        return Property(true);
      case 'x':
        return HexEscape();
      default:
        break;
    }
    const bool plain = c < 128 && (RecordOf(c).flags & kPunctuation) != 0;
    if (!plain) Fail(fmt::format("the escape '\\{}'", static_cast<char>(c)));
    return RangeItem(c, c);
  }

  // \xHH below 80, or \x{H..}.
  CharacterSet::Item HexEscape() {
    const bool braced = Next("{");
    char32_t value = 0;
    size_t digits = 0;
    for (; digits < (braced ? 6 : 2) && !AtEnd(); ++digits, ++at_) {
      const char digit = pattern_[at_];
      if (digit >= '0' && digit <= '9') {
        value = value * 16 + static_cast<char32_t>(digit - '0');
      } else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f') {
        value = value * 16 + static_cast<char32_t>((digit | 0x20) - 'a' + 10);
      } else {
        break;
      }
    }
    if (digits == 0 || value > 0x10FFFF || (braced && !Next("}")) || (!braced && value > 0x7F)) {
      Fail("this \\x escape");
      value = 0;
    }
    return RangeItem(value, value);
  }

  // The categories whose name starts with `name`: "L" is all letters, "Nd" decimal digits.
  static uint32_t Categories(std::string_view name) {
    uint32_t mask = 0;
    for (size_t i = 0; i < std::size(kCategoryNames); ++i) {
      if (std::string_view(kCategoryNames[i]).starts_with(name)) mask |= uint32_t{1} << i;
    }
    return mask;
  }

  CharacterSet::Item Property(bool negated) {
    if (!Next("{")) Fail("a property without braces");
    if (Next("^")) negated = !negated;
    const size_t end = std::min(pattern_.find('}', at_), pattern_.size());
    const std::string_view name = pattern_.substr(at_, end - at_);
    const uint32_t mask = name.empty() || name.size() > 2 ? 0 : Categories(name);
    if (mask == 0) {
      Fail(fmt::format("the property '{}'", name));
    } else {
      at_ = std::min(end + 1, pattern_.size());
    }
    return {.categories = mask, .negated = negated};
  }

  // Adds the other case of an ASCII letter, and the two letters elsewhere that fold to one.
  void FoldCase(CharacterSet& set) {
    const CharacterSet::Item item = set.items.empty() ? CharacterSet::Item{} : set.items[0];
    const bool literal = set.items.size() == 1 && !set.negated && item.first == item.last &&
                         item.categories == 0 && item.flags == 0;
    const char32_t lower = item.first | 0x20;
    if (!literal || item.first > 127) return Fail("(?i:) around anything but ASCII characters");
    const char pair[] = {static_cast<char>(previous_folded_), static_cast<char>(lower), 0};
    for (const char* known : {"ss", "st", "ff", "fi", "fl"}) {
      if (std::string_view(pair) == known) return Fail("(?i:) around letters that have a ligature");
    }
    previous_folded_ = lower;
    if (lower < 'a' || lower > 'z') return;
    set.items = {RangeItem(lower, lower), RangeItem(lower - 0x20, lower - 0x20)};
    if (lower == 's') set.items.push_back(RangeItem(0x17F, 0x17F));
    if (lower == 'k') set.items.push_back(RangeItem(0x212A, 0x212A));
  }

  std::string_view pattern_;
  CharacterFlag word_;  // what \w stands for
  size_t at_ = 0;
  std::string failure_;
  bool fold_case_ = false;
  char32_t previous_folded_ = 0;
  Regex regex_;
};

Result<Regex> Regex::Compile(std::string_view pattern, CharacterFlag word) {
  return RegexCompiler(pattern, word).Compile();
}

Regex Regex::Literal(std::string_view text) {
  Regex regex;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character next = DecodeUtf8(text.data() + at);
    CharacterSet set;
    set.items = {RangeItem(next.code_point, next.code_point)};
    for (char32_t c = 0; c < 128; ++c) set.ascii[c] = set.Search(c);
    regex.program_.push_back({.op = Op::kSet, .set = static_cast<uint32_t>(regex.sets_.size())});
    regex.sets_.push_back(std::move(set));
    at += next.size_bytes;
  }
  regex.program_.push_back({.op = Op::kMatch});
  return regex;
}

}  // namespace sprat
