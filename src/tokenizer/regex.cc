#include "tokenizer/regex.h"

#include <limits>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {

bool CharacterSet::Search(char32_t c) const {
  const CharacterRecord& record = RecordOf(c);
  for (const Item& item : items) {
    const bool inside = item.categories != 0 ? (item.categories >> record.category & 1) != 0
                        : item.flags != 0    ? (item.flags & record.flags) != 0
                                             : c >= item.first && c <= item.last;
    if (inside != item.negated) return !negated;
  }
  return negated;
}

namespace {

// Moves `at` over the next character if the set has it.
bool TakeOne(std::string_view text, const CharacterSet& set, size_t& at) {
  if (at >= text.size()) return false;
  const Utf8Character next = DecodeUtf8(text.data() + at);
  at += next.size_bytes;
  return set.Contains(next.code_point);
}

}  // namespace

// Takes as many characters as the step allows, and notes where else it could have stopped before it
// goes on at `next_pc`. False if there are too few.
bool Regex::Repeat(std::string_view text, const Instruction& step, uint32_t next_pc, size_t& at,
                   Scratch& retries) const {
  size_t lowest = at;
  uint32_t count = 0;
  for (; count < step.most && at < text.size(); ++count) {
    if (count == step.second) lowest = at;
    const Utf8Character next = DecodeUtf8(text.data() + at);
    if (!sets_[step.set].Contains(next.code_point)) break;
    at += next.size_bytes;
  }
  if (count == step.second) lowest = at;
  if (count < step.second) return false;
  if (!step.flag && lowest < at) retries.push_back({next_pc, lowest, PreviousCharacter(text, at)});
  return true;
}

std::optional<size_t> Regex::MatchAt(std::string_view text, size_t at, uint32_t pc,
                                     Scratch& retries) const {
  const size_t outer = retries.size();
  while (true) {
    const Instruction& step = program_[pc];
    bool failed = false;
    switch (step.op) {
      case Op::kMatch:
        retries.resize(outer);
        return at;
      case Op::kSet:
        failed = !TakeOne(text, sets_[step.set], at);
        ++pc;
        break;
      case Op::kSplit:
        retries.push_back({step.second, at, at});
        pc = step.first;
        break;
      case Op::kJump:
        pc = step.first;
        break;
      case Op::kRepeat:
        failed = !Repeat(text, step, pc + 1, at, retries);
        ++pc;
        break;
      case Op::kLook:
        failed = MatchAt(text, at, pc + 1, retries).has_value() == step.flag;
        pc = step.first;
        break;
      case Op::kTextStart:
        failed = at != 0;
        ++pc;
        break;
      case Op::kTextEnd:
        failed = at != text.size();
        ++pc;
        break;
    }
    if (!failed) continue;
    if (retries.size() == outer) return std::nullopt;
    Retry& retry = retries.back();
    pc = retry.pc;
    at = retry.at;
    if (retry.at > retry.lowest) {
      retry.at = PreviousCharacter(text, retry.at);
    } else {
      retries.pop_back();
    }
  }
}

std::optional<Regex::Match> Regex::Find(std::string_view text, size_t from,
                                        Scratch& scratch) const {
  for (size_t at = from; at < text.size(); at += Utf8Length(ByteAt(text.data(), at))) {
    if (const auto end = MatchAt(text, at, 0, scratch)) return Match{at, *end};
  }
  return std::nullopt;
}

}  // namespace sprat
