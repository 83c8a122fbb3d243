#include "tokenizer/unicode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/ascii_block.h"
#include "tokenizer/ascii_block_portable.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Unicode, Flags) {
  EXPECT_EQ(RecordOf('a').flags, kWord | kPatternWord);
  EXPECT_EQ(RecordOf('7').flags, kWord | kNumeric | kPatternWord);
  EXPECT_EQ(RecordOf(0xB2).flags, kNumeric);  // superscript two
  EXPECT_EQ(RecordOf('$').flags, kPunctuation);
  EXPECT_EQ(RecordOf(0x20AC).flags, 0);  // the euro sign is no punctuation
  EXPECT_EQ(RecordOf('\t').flags, kWhitespace);
  EXPECT_EQ(RecordOf('\v').flags, kWhitespace | kControl);
  EXPECT_EQ(RecordOf(0x200B).flags, kControl);
  EXPECT_EQ(RecordOf(0x301).flags, kNonspacingMark | kMark | kWord | kPatternWord);
  EXPECT_EQ(RecordOf(0x301).combining_class, 230);
  EXPECT_EQ(RecordOf(0x10FFFF).flags, 0);
}

TEST(Unicode, LowerCaseIsFullAndWithoutContext) {
  const auto lower = [](char32_t c) {
    std::vector<char32_t> result;
    EmitLower(c, [&result](char32_t l) { result.push_back(l); });
    return result;
  };
  EXPECT_THAT(lower('A'), ElementsAre('a'));
  EXPECT_THAT(lower(0x3A3), ElementsAre(0x3C3));       // no final sigma
  EXPECT_THAT(lower(0x130), ElementsAre('i', 0x307));  // two letters
  EXPECT_THAT(lower(0x10400), ElementsAre(0x10428));
  EXPECT_THAT(lower('7'), ElementsAre('7'));
}

TEST(Unicode, Decompositions) {
  HangulBuffer hangul;
  EXPECT_THAT(CanonicalDecomposition('a', hangul), IsEmpty());
  EXPECT_THAT(CanonicalDecomposition(0xE9, hangul), ElementsAre('e', 0x301));
  EXPECT_THAT(CanonicalDecomposition(0x1D6, hangul), ElementsAre('u', 0x308, 0x304));
  EXPECT_THAT(CanonicalDecomposition(0xAC01, hangul), ElementsAre(0x1100, 0x1161, 0x11A8));
  EXPECT_THAT(CanonicalDecomposition(0xAC00, hangul), ElementsAre(0x1100, 0x1161));
  EXPECT_THAT(CanonicalDecomposition(0xFB01, hangul), IsEmpty());
  EXPECT_THAT(CompatibleDecomposition(0xFB01, hangul), ElementsAre('f', 'i'));
  EXPECT_THAT(CompatibleDecomposition(0xE9, hangul), ElementsAre('e', 0x301));
}

TEST(Unicode, IdeographsWithTheReferencesGap) {
  EXPECT_TRUE(IsBertIdeograph(0x4E00));
  EXPECT_TRUE(IsBertIdeograph(0x2B920));
  EXPECT_FALSE(IsBertIdeograph(0x2B820));
  EXPECT_FALSE(IsBertIdeograph(0x3042));
  EXPECT_FALSE(IsBertIdeograph(0xAC00));
}

TEST(Utf8, RoundTrip) {
  for (const char32_t c : {0x24u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    AppendUtf8(c, text);
    EXPECT_EQ(DecodeUtf8(text.data()).code_point, c);
    EXPECT_EQ(DecodeUtf8(text.data()).size_bytes, text.size());
    EXPECT_EQ(FindInvalidUtf8(text), std::nullopt);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("ab\x80"), 2u);
  EXPECT_EQ(FindInvalidUtf8("\xC0\xAF"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("a\xE0\x9F\xBF"), 1u);     // overlong
  EXPECT_EQ(FindInvalidUtf8("\xF0\x8F\xBF\xBF"), 0u);  // overlong
  EXPECT_EQ(FindInvalidUtf8("ab\xED\xA0\x80"), 2u);    // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(FindInvalidUtf8("\xC3\xA9\xE2\x82"), 2u);  // cut short
  EXPECT_EQ(FindInvalidUtf8(std::string(99, 'a') + "\xFF"), 99u);
}

TEST(AsciiBlock, ClassesOfEveryByte) {
  for (int value = 0; value < 256; ++value) {
    const std::string block(64, static_cast<char>(value));
    const AsciiBlock found = ClassifyAscii(block.data());
    const bool space = value == ' ' || value == '\t' || value == '\n' || value == '\r';
    const bool punctuation =
        value < 128 &&
        std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~").find(static_cast<char>(value)) !=
            std::string_view::npos;
    EXPECT_EQ(found.space, space ? ~uint64_t{0} : 0) << value;
    EXPECT_EQ(found.punctuation, punctuation ? ~uint64_t{0} : 0) << value;
    const portable::AsciiBlock reference = portable::ClassifyAscii(block.data());
    EXPECT_EQ(found.space, reference.space) << value;
    EXPECT_EQ(found.punctuation, reference.punctuation) << value;
  }
}

TEST(AsciiBlock, EveryPosition) {
  for (size_t i = 0; i < 64; ++i) {
    std::string block(64, 'x');
    block[i] = '.';
    block[(i + 1) % 64] = ' ';
    EXPECT_EQ(ClassifyAscii(block.data()).punctuation, uint64_t{1} << i);
    EXPECT_EQ(ClassifyAscii(block.data()).space, uint64_t{1} << (i + 1) % 64);
  }
}

}  // namespace
}  // namespace sprat
