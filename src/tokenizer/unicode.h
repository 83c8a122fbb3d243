// What the reference tokenizer believes about characters: tables generated from it by
// tools/make_unicode_tables.py, because its parts follow several older versions of Unicode.
#ifndef SPRAT_TOKENIZER_UNICODE_H_
#define SPRAT_TOKENIZER_UNICODE_H_

#include <cstdint>
#include <span>

namespace sprat {

// Bits of CharacterRecord::flags.
enum CharacterFlag : uint8_t {
  kWhitespace = 1 << 0,      // White_Space
  kPunctuation = 1 << 1,     // category P*, and the ASCII symbols $ + < = > ^ ` | ~
  kControl = 1 << 2,         // what BertNormalizer's clean_text removes
  kNonspacingMark = 1 << 3,  // category Mn
  kMark = 1 << 4,            // category M*
  kWord = 1 << 5,            // \w of Rust's regex
  kNumeric = 1 << 6,         // category N*
  kPatternWord = 1 << 7,     // [\w] of Oniguruma; see regex_compiler.cc
};

// What the rules for grapheme clusters ask of a character (UAX #29, GB3 to GB13).
enum class GraphemeClass : uint8_t {
  kOther,
  kControl,  // CR and LF included
  kExtend,   // neither of the two Indic kinds below
  kZeroWidthJoiner,
  kSpacingMark,
  kPrepend,
  kRegionalIndicator,
  kHangulL,
  kHangulV,
  kHangulT,
  kHangulLV,
  kHangulLVT,
  kPictographic,
  kIndicConsonant,
  kIndicLinker,  // also Extend
  kIndicExtend,  // also Extend
};

// General categories, in the order of tools/make_unicode_tables.py; kCategoryNames[i] is the name.
inline constexpr char kCategoryNames[][3] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

struct CharacterRecord {
  uint8_t flags;
  uint8_t combining_class;  // canonical combining class; 0 for characters with a decomposition
  uint8_t category;         // index in kCategoryNames, as regular expressions see it
  GraphemeClass grapheme;
  int32_t lower_delta;  // lower-case letter minus this one (U+0130: see AppendLower)
};

// The record of any code point up to U+10FFFF.
const CharacterRecord& RecordOf(char32_t c);

// The full canonical (compatible) decomposition of c, empty if c stands for itself. Hangul
// syllables are written to `hangul`, which must live as long as the result is used.
struct HangulBuffer {
  char32_t jamo[3];
};
std::span<const char32_t> CanonicalDecomposition(char32_t c, HangulBuffer& hangul);
std::span<const char32_t> CompatibleDecomposition(char32_t c, HangulBuffer& hangul);

// The character that NFC makes of the two; 0 if they stay apart.
char32_t Compose(char32_t first, char32_t second);

// Calls emit(l) for each character l of the lower-case form of c: context-free, full expansion.
template <typename Emit>
void EmitLower(char32_t c, Emit&& emit) {
  if (c == 0x130) {  // the only one with two
    emit(char32_t{'i'});
    emit(char32_t{0x307});
    return;
  }
  emit(static_cast<char32_t>(static_cast<int32_t>(c) + RecordOf(c).lower_delta));
}

// The ideographs that BertNormalizer puts spaces around. The last range but two starts at U+2B920
// as in the reference, where Unicode says U+2B820.
bool IsBertIdeograph(char32_t c);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_UNICODE_H_
