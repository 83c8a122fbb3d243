#include "tokenizer/unicode.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sprat {
namespace {

#include "tokenizer/unicode_tables.inc"  // NOLINT: data

constexpr size_t kBlock{64};  // as in tools/make_unicode_tables.py

std::span<const char32_t> Expansion(char32_t c, const uint8_t* block_of, const uint16_t* offsets,
                                    const char32_t* data) {
  const size_t offset = offsets[block_of[c / kBlock] * kBlock + c % kBlock];
  return {data + offset + 1, data[offset]};
}

// Hangul syllables: The Unicode Standard, section 3.12.
constexpr char32_t kFirstSyllable{0xAC00};
constexpr char32_t kSyllables{11172};
constexpr char32_t kLeading{19};
constexpr char32_t kVowels{21};
constexpr char32_t kTrailing{28};  // "none" included

// Empty if c is no syllable.
std::span<const char32_t> DecomposeHangul(char32_t c, HangulBuffer& hangul) {
  if (c - kFirstSyllable >= kSyllables) return {};
  const char32_t syllable = c - kFirstSyllable;
  hangul.jamo[0] = 0x1100 + syllable / (kVowels * kTrailing);
  hangul.jamo[1] = 0x1161 + syllable / kTrailing % kVowels;
  hangul.jamo[2] = 0x11A7 + syllable % kTrailing;
  return {hangul.jamo, syllable % kTrailing == 0 ? size_t{2} : size_t{3}};
}

}  // namespace

const CharacterRecord& RecordOf(char32_t c) {
  return kRecords[kRecordOf[kRecordBlockOf[c / kBlock] * kBlock + c % kBlock]];
}

std::span<const char32_t> CanonicalDecomposition(char32_t c, HangulBuffer& hangul) {
  const auto syllable = DecomposeHangul(c, hangul);
  if (!syllable.empty()) return syllable;
  return Expansion(c, kCanonicalBlockOf, kCanonicalOffsets, kCanonicalData);
}

std::span<const char32_t> CompatibleDecomposition(char32_t c, HangulBuffer& hangul) {
  const auto own = Expansion(c, kCompatibleBlockOf, kCompatibleOffsets, kCompatibleData);
  return own.empty() ? CanonicalDecomposition(c, hangul) : own;
}

char32_t Compose(char32_t first, char32_t second) {
  if (first - 0x1100 < kLeading && second - 0x1161 < kVowels) {
    return kFirstSyllable + ((first - 0x1100) * kVowels + (second - 0x1161)) * kTrailing;
  }
  if (first - kFirstSyllable < kSyllables && (first - kFirstSyllable) % kTrailing == 0 &&
      second - 0x11A8 < kTrailing - 1) {
    return first + (second - 0x11A7);
  }
  struct Pair {
    char32_t first, second, composed;
  };
  static_assert(sizeof kCompositions % sizeof(Pair) == 0);
  const auto* pairs = reinterpret_cast<const Pair*>(kCompositions);
  const auto* end = pairs + sizeof kCompositions / sizeof(Pair);
  const auto* found = std::lower_bound(pairs, end, std::pair(first, second),
                                       [](const Pair& pair, const auto& wanted) {
                                         return std::pair(pair.first, pair.second) < wanted;
                                       });
  const bool known = found != end && found->first == first && found->second == second;
  return known ? found->composed : 0;
}

bool IsBertIdeograph(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) { return c - first <= last - first; };
  return in(0x4E00, 0x9FFF) || in(0x3400, 0x4DBF) || in(0x20000, 0x2A6DF) || in(0x2A700, 0x2B73F) ||
         in(0x2B740, 0x2B81F) || in(0x2B920, 0x2CEAF) || in(0xF900, 0xFAFF) || in(0x2F800, 0x2FA1F);
}

}  // namespace sprat
