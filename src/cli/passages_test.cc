#include "cli/passages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sprat::cli {
namespace {

using ::testing::ElementsAre;

// "line|text" of each passage.
std::vector<std::string> Split(std::string_view text, size_t max_bytes = 1000) {
  std::vector<std::string> found;
  for (const Passage& passage : SplitPassages(text, max_bytes)) {
    found.push_back(std::to_string(passage.line) + "|" + std::string(passage.text));
  }
  return found;
}

TEST(Passages, AreParagraphs) {
  EXPECT_THAT(Split("one\ntwo\n\n \t\n  three\n"), ElementsAre("1|one\ntwo", "5|three"));
  EXPECT_THAT(Split("\r\none\r\n\r\ntwo"), ElementsAre("2|one", "4|two"));
  EXPECT_THAT(Split(""), ElementsAre());
  EXPECT_THAT(Split("\n\n"), ElementsAre());
}

TEST(Passages, HeadingsStayWithWhatFollows) {
  EXPECT_THAT(Split("# A\n\n## B\n\ntext\n\nmore"), ElementsAre("1|# A\n\n## B\n\ntext", "7|more"));
  EXPECT_THAT(Split("text\n\n# last"), ElementsAre("1|text", "3|# last"));
}

TEST(Passages, WithoutAWordAreLeftOut) {
  EXPECT_THAT(Split("a\n\n----\n\n}\n\n\xC3\xA9\n\n7"), ElementsAre("1|a", "7|\xC3\xA9", "9|7"));
}

TEST(Passages, LongOnesAreHalvedAtSentences) {
  EXPECT_THAT(Split("One two three. Four five\nsix seven.", 30),
              ElementsAre("1|One two three.", "1|Four five\nsix seven."));
}

TEST(Passages, HalvesKnowTheirLines) {
  const Halves halves = Halve({.text = "aaaa bbbb\ncccc dddd", .line = 7});
  EXPECT_EQ(halves.first.text, "aaaa bbbb");
  EXPECT_EQ(halves.first.line, 7u);
  EXPECT_EQ(halves.second.text, "cccc dddd");
  EXPECT_EQ(halves.second.line, 8u);
  EXPECT_EQ(Halve({.text = "aa\nbb. cc dd", .line = 7}).second.line, 8u);
}

TEST(Passages, HalvedBetweenWordsOrElseBetweenCharacters) {
  EXPECT_EQ(Halve({.text = "aaaa bb cccc", .line = 1}).first.text, "aaaa bb");
  EXPECT_EQ(Halve({.text = "abcdefgh", .line = 1}).first.text, "abcd");
  // Nine bytes, three characters: the middle is inside the second.
  EXPECT_EQ(Halve({.text = "\xE3\x81\x82\xE3\x81\x84\xE3\x81\x86", .line = 1}).first.text,
            "\xE3\x81\x82");
}

TEST(Passages, JapaneseSentencesEndWithoutASpace) {
  EXPECT_EQ(Halve({.text = "これは。それは", .line = 1}).first.text, "これは。");
}

// Whatever the text, pieces fit, nothing but white space is lost and the order stays.
TEST(Passages, NothingIsLost) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += i % 17 == 0 ? "ab.\n" : i % 5 == 0 ? "x y " : "wordwordword";
  std::string joined;
  for (const Passage& passage : SplitPassages(text, 40)) {
    EXPECT_LE(passage.text.size(), 40u);
    joined += passage.text;
  }
  const auto bare = [](std::string s) {
    std::erase_if(s, [](char c) { return c == ' ' || c == '\n'; });
    return s;
  };
  EXPECT_EQ(bare(joined), bare(text));
}

}  // namespace
}  // namespace sprat::cli
