// Normalizers, pre-tokenizers and grapheme clusters, one small case each. What they do to every
// character and to random strings is compared with the reference in tests/tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/byte_level.h"
#include "tokenizer/grapheme.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace sprat {
namespace {

using ::testing::ElementsAre;

TEST(Grapheme, Clusters) {
  const auto first = [](std::string_view text) {
    return std::string(text.substr(0, GraphemeLength(text)));
  };
  EXPECT_EQ(first("ab"), "a");
  EXPECT_EQ(first("\r\nx"), "\r\n");
  EXPECT_EQ(first("\n\u0301"), "\n");                                  // nothing joins a control
  EXPECT_EQ(first("e\u0301\u0327x"), "e\u0301\u0327");                 // marks
  EXPECT_EQ(first("\u1100\u1161\u11a8\u1100"), "\u1100\u1161\u11a8");  // a Hangul syllable
  EXPECT_EQ(first("\U0001F468\u200D\U0001F469x"), "\U0001F468\u200D\U0001F469");
  EXPECT_EQ(first("a\u200D\U0001F469"), "a\u200D");  // only pictographs are joined
  EXPECT_EQ(first("\U0001F1E9\U0001F1EA\U0001F1EB"), "\U0001F1E9\U0001F1EA");  // flags are pairs
  EXPECT_EQ(first("\u0915\u094D\u0924x"), "\u0915\u094D\u0924");               // an Indic conjunct
}

std::string Normalized(Normalizer::Step step, std::string_view text) {
  NormalizerScratch scratch;
  std::string out = "old";
  static_cast<void>(Normalizer({std::move(step)}).Normalize(text, scratch, out));
  return out;
}

TEST(Normalizer, UnicodeForms) {
  EXPECT_EQ(Normalized(UnicodeForm{false, true}, "e\u0301\u1100\u1161"), "\u00e9\uac00");
  EXPECT_EQ(Normalized(UnicodeForm{false, false}, "\u00e9"), "e\u0301");
  EXPECT_EQ(Normalized(UnicodeForm{true, true}, "\ufb01\u00b2e\u0301"), "fi2\u00e9");
  EXPECT_EQ(Normalized(UnicodeForm{true, false}, "\u00bd"), "1\u20442");
  // Canonical order: the cedilla (class 202) goes before the acute (230) and composes with c.
  EXPECT_EQ(Normalized(UnicodeForm{false, true}, "c\u0301\u0327"), "\u1e09");
  EXPECT_EQ(Normalized(UnicodeForm{false, true}, "\u0958"), "\u0915\u093c");  // never composed
}

TEST(Normalizer, SmallOnes) {
  EXPECT_EQ(Normalized(Lowercase{}, "A\u0130\u03a3"), "ai\u0307\u03c3");
  EXPECT_EQ(Normalized(StripAccents{}, "e\u0301\u00e9"), "e\u00e9");
  EXPECT_EQ(Normalized(Strip{true, false}, " \u3000a "), "a ");
  EXPECT_EQ(Normalized(Strip{false, true}, " a \n"), " a");
  EXPECT_EQ(Normalized(Strip{true, true}, " \n"), "");
  EXPECT_EQ(Normalized(Prepend{"\u2581"}, "a"), "\u2581a");
  EXPECT_EQ(Normalized(Prepend{"\u2581"}, ""), "");
  EXPECT_EQ(Normalized(Nmt{}, "a\x01\tb\u200b"), "a b ");
  EXPECT_EQ(Normalized(ByteLevelNormalizer{}, " \u00e9"), "\u0120\u00c3\u00a9");
  EXPECT_EQ(Normalized(Replace{Regex::Literal("ab"), "", "x"}, "aabab"), "axx");
}

TEST(ByteLevel, PrintableBytesStandForThemselves) {
  EXPECT_EQ(ByteLevelCharacter('!'), U'!');
  EXPECT_EQ(ByteLevelCharacter(0), 0x100u);
  EXPECT_EQ(ByteLevelCharacter(' '), 0x120u);
  EXPECT_EQ(ByteLevelCharacter(0x7F), 0x121u);
  EXPECT_EQ(ByteLevelCharacter(0xA0), 0x142u);
  EXPECT_EQ(ByteLevelCharacter(0xA1), 0xA1u);
  EXPECT_EQ(ByteLevelCharacter(0xAD), 0x143u);
  EXPECT_EQ(ByteLevelCharacter(0xFF), 0xFFu);
}

std::vector<std::string> Cut(std::vector<PreTokenizer::Step> steps, std::string_view text,
                             bool first = true) {
  Words words;
  words.text = text;
  words.words = {{0, text.size(), first}};
  PreTokenizerScratch scratch;
  PreTokenizer(std::move(steps)).Split(scratch, words);
  std::vector<std::string> cut;
  for (const Words::Word& word : words.words) cut.emplace_back(words.Text(word));
  return cut;
}

TEST(PreTokenizer, Behaviors) {
  const auto at_dashes = [](SplitBehavior behavior) {
    const CharacterSplit step{CharacterSplit::Class::kOne, behavior, '-'};
    return Cut({step}, "-a--b-");
  };
  EXPECT_THAT(at_dashes(SplitBehavior::kRemoved), ElementsAre("a", "b"));
  EXPECT_THAT(at_dashes(SplitBehavior::kIsolated), ElementsAre("-", "a", "-", "-", "b", "-"));
  EXPECT_THAT(at_dashes(SplitBehavior::kMergedWithPrevious), ElementsAre("-", "a-", "-", "b-"));
  EXPECT_THAT(at_dashes(SplitBehavior::kMergedWithNext), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(at_dashes(SplitBehavior::kContiguous), ElementsAre("-", "a", "--", "b", "-"));
}

TEST(PreTokenizer, MetaspaceSchemes) {
  EXPECT_THAT(Cut({Metaspace{}}, "a  b"), ElementsAre("\u2581a", "\u2581", "\u2581b"));
  EXPECT_THAT(Cut({Metaspace{}}, " a"), ElementsAre("\u2581a"));
  EXPECT_THAT(Cut({Metaspace{.prepend = Metaspace::Prepend::kNever}}, "a b"),
              ElementsAre("a", "\u2581b"));
  EXPECT_THAT(Cut({Metaspace{.prepend = Metaspace::Prepend::kFirst}}, "a"), ElementsAre("\u2581a"));
  EXPECT_THAT(Cut({Metaspace{.prepend = Metaspace::Prepend::kFirst}}, "a", false),
              ElementsAre("a"));
  EXPECT_THAT(Cut({Metaspace{.split = false}}, "a b"), ElementsAre("\u2581a\u2581b"));
}

TEST(PreTokenizer, OtherSteps) {
  EXPECT_THAT(Cut({CharacterSplit{}, Metaspace{}}, "a\tb"), ElementsAre("\u2581a", "\u2581b"));
  EXPECT_THAT(Cut({FixedLength{2}}, "a\u00e9bcd"), ElementsAre("a\u00e9", "bc", "d"));
  EXPECT_THAT(Cut({PrefixSpace{}, BytesToCharacters{}}, "a"), ElementsAre("\u0120a"));
  EXPECT_THAT(Cut({CharacterSplit{CharacterSplit::Class::kNumeric, SplitBehavior::kContiguous, 0}},
                  "ab12\u00b2c"),
              ElementsAre("ab", "12\u00b2", "c"));
  EXPECT_THAT(Cut({CharacterSplit{}}, "  "), ElementsAre());
}

}  // namespace
}  // namespace sprat
