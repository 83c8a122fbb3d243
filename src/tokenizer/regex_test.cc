#include "tokenizer/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sprat {
namespace {

using ::testing::HasSubstr;

// The matches in `text`, each in brackets.
std::string Marked(std::string_view pattern, std::string_view text) {
  const Result<Regex> regex = Regex::Compile(pattern);
  if (!regex.ok()) return regex.error().message();
  Regex::Scratch scratch;
  std::string marked;
  size_t at = 0;
  while (const auto match = regex.value().Find(text, at, scratch)) {
    marked += text.substr(at, match->begin - at);
    marked += '[';
    marked += text.substr(match->begin, match->end - match->begin);
    marked += ']';
    at = match->end;
  }
  EXPECT_TRUE(scratch.empty());
  marked += text.substr(at);
  return marked;
}

TEST(Regex, AlternativesAreTriedInOrder) {
  EXPECT_EQ(Marked("a|ab|b", "ab"), "[a][b]");
  EXPECT_EQ(Marked("ab|a|b", "ab"), "[ab]");
  EXPECT_EQ(Marked("(?:x|yy|zzz)w", "xw yyw zzzw zw"), "[xw] [yyw] [zzzw] zw");
}

TEST(Regex, Repetitions) {
  EXPECT_EQ(Marked("a+", "baaab"), "b[aaa]b");
  EXPECT_EQ(Marked("ba*", "bbaa"), "[b][baa]");
  EXPECT_EQ(Marked("ba?a", "ba baa b"), "[ba] [baa] b");  // the ? gives back
  EXPECT_EQ(Marked("a{2,3}", "aaaaaaa"), "[aaa][aaa]a");
  EXPECT_EQ(Marked("a{2}", "aaa"), "[aa]a");
  EXPECT_EQ(Marked("a{2,}b", "ab aab aaab"), "ab [aab] [aaab]");
  EXPECT_EQ(Marked("a+?", "aa"), "[a][a]");
  EXPECT_EQ(Marked("a++a", "aaa"), "aaa");  // possessive: gives nothing back
  EXPECT_EQ(Marked("(?:ab)+", "ababa"), "[abab]a");
  EXPECT_EQ(Marked("(?:ab){1,2}c", "ababc abc"), "[ababc] [abc]");
  EXPECT_EQ(Marked("x(?:a|b)*?c", "xabc"), "[xabc]");
}

TEST(Regex, LookAhead) {
  EXPECT_EQ(Marked(R"(\s+(?!\S)|\s+)", "a   b  "), "a[  ][ ]b[  ]");
  EXPECT_EQ(Marked("a(?=b)", "ab ac"), "[a]b ac");
}

TEST(Regex, ClassesAndProperties) {
  EXPECT_EQ(Marked(R"([^\s\p{L}\p{N}]+)", "ab, \u00e9!? 1"), "ab[,] \u00e9[!?] 1");
  EXPECT_EQ(Marked(R"(\p{Lu}\p{Ll}+)", "Abc \u00c4b aB"), "[Abc] [\u00c4b] aB");
  EXPECT_EQ(Marked(R"([a-c\-x]+)", "abc-xd"), "[abc-x]d");
  EXPECT_EQ(Marked(R"(\w)", "\u00b2!"), "[\u00b2]!");
  EXPECT_EQ(Marked(R"([^\w])", "\u00b2!"), "[\u00b2][!]");  // as Oniguruma has it
  EXPECT_EQ(Marked(R"(\P{L}+)", "a12b"), "a[12]b");
  EXPECT_EQ(Marked(R"(\x{e9}|\x41)", "A\u00e9"), "[A][\u00e9]");
  EXPECT_EQ(Marked(".", "a\nb"), "[a]\n[b]");
  EXPECT_EQ(Marked("^a|b$", "aab ab"), "[a]ab a[b]");
}

TEST(Regex, FoldsAsciiCase) {
  EXPECT_EQ(Marked("(?i:'s|'ll)x", "'sx 'Sx 'lLx 'sX"), "['sx] ['Sx] ['lLx] 'sX");
  EXPECT_EQ(Marked("(?i:'s)", "'\u017f"), "['\u017f]");  // long s folds to s
}

TEST(Regex, LongRunsNeedNoMemoryPerCharacter) {
  const std::string text(1000000, 'a');
  EXPECT_EQ(Marked("a+b|a+", text).size(), text.size() + 2);
}

TEST(Regex, RefusesByPatternAndReason) {
  for (const auto& [pattern, reason] : {std::pair{"(?<=a)b", "a group of this kind"},
                                        {"a*", "a pattern that can match an empty string"},
                                        {R"(\p{Han})", "the property 'Han'"},
                                        {"[[:alpha:]]", "a class of this kind"},
                                        {"[a&&b]", "a class of this kind"},
                                        {"(ab", "a group without end"},
                                        {"ab)", "an unmatched ')'"},
                                        {R"(\b)", "the escape '\\b'"},
                                        {"(?i:st)", "ligature"},
                                        {"a{3,2}", "this repetition"},
                                        {"+a", "a repetition of nothing"}}) {
    EXPECT_THAT(Marked(pattern, ""), HasSubstr(pattern));
    EXPECT_THAT(Marked(pattern, ""), HasSubstr(reason));
  }
}

}  // namespace
}  // namespace sprat
