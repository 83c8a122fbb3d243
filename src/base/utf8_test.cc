#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace sprat {
namespace {

TEST(Utf8CharacterLength, IsThatOfTheFirstCharacter) {
  EXPECT_EQ(Utf8CharacterLength("a\xFF"), 1u);
  EXPECT_EQ(Utf8CharacterLength(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(Utf8CharacterLength("\xC3\xA9x"), 2u);
  EXPECT_EQ(Utf8CharacterLength("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(Utf8CharacterLength("\xF4\x8F\xBF\xBF"), 4u);  // U+10FFFF
}

TEST(Utf8CharacterLength, IsZeroWhereNoneStarts) {
  for (const char* text : {"\x80", "\xBF\xBF", "\xC1\xBF", "\xC3", "\xC3x", "\xE0\x9F\xBF",
                           "\xED\xA0\x80", "\xE2\x82", "\xE2\x82x", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x98", "\xFF"}) {
    EXPECT_EQ(Utf8CharacterLength(text), 0u) << text;
  }
}

// The examples of The Unicode Standard 15, tables 3-8 to 3-11.
TEST(Utf8FaultLength, IsThatOfTheMaximalSubpart) {
  EXPECT_EQ(Utf8FaultLength("\xC0\xAF"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xE0\x80\xBF"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xF0\x81\x82"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xED\xA0\x80"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xF4\x91\x92\x93"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xFF"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xBF"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"), 2u);
  EXPECT_EQ(Utf8FaultLength("\xE2\xF0"), 1u);
  EXPECT_EQ(Utf8FaultLength("\xF0\x91\x92\xF1"), 3u);
  EXPECT_EQ(Utf8FaultLength("\xF1\xBF"), 2u);
}

TEST(ValidUtf8Prefix, EndsBeforeTheFirstFault) {
  EXPECT_EQ(ValidUtf8Prefix(""), 0u);
  EXPECT_EQ(ValidUtf8Prefix("0123456789\xC3\xA9"), 12u);
  EXPECT_EQ(ValidUtf8Prefix("01234567\x80"), 8u);
  EXPECT_EQ(ValidUtf8Prefix("0123456\xC3\xA9\xE2\x82"), 9u);
  EXPECT_EQ(ValidUtf8Prefix(std::string(99, 'a') + "\xFF" + std::string(99, 'a')), 99u);
}

}  // namespace
}  // namespace sprat
