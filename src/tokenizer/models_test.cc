// The three models on vocabularies small enough to work the ids out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/unigram.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece.h"

namespace sprat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Entries = std::vector<DoubleArray::Entry>;

Entries Numbered(const std::vector<std::string_view>& tokens) {
  Entries entries;
  for (const std::string_view token : tokens) {
    entries.push_back({token, static_cast<uint32_t>(entries.size())});
  }
  return entries;
}

std::vector<uint32_t> ToVector(const IdBuffer& ids) { return {ids.ids().begin(), ids.ids().end()}; }

std::vector<uint32_t> WordPieceIds(std::string_view word, const WordPieceOptions& options = {}) {
  Entries entries = Numbered({"[UNK]", "un", "##aff", "##able", "##a", "##ff", "unaf", "##b"});
  const Result<WordPiece> model = WordPiece::Build(entries, options);
  IdBuffer ids;
  model.value().Append(word, CountCharacters(word), ids);
  return ToVector(ids);
}

TEST(WordPiece, TakesTheLongestPieceFromTheLeft) {
  EXPECT_THAT(WordPieceIds("unable"), ElementsAre(1, 3));
  EXPECT_THAT(WordPieceIds("un"), ElementsAre(1));
  EXPECT_THAT(WordPieceIds("unaffable"),
              ElementsAre(0));  // "unaf" is taken, "##fable" has no match
  EXPECT_THAT(WordPieceIds("una"), ElementsAre(1, 4));
}

TEST(WordPiece, LongWordsAndOtherPrefixes) {
  EXPECT_THAT(WordPieceIds("unable", {.max_characters = 6}), ElementsAre(1, 3));
  EXPECT_THAT(WordPieceIds("unable", {.max_characters = 5}), ElementsAre(0));
  EXPECT_THAT(WordPieceIds("unun", {.continuing_prefix = ""}), ElementsAre(1, 1));
  EXPECT_THAT(WordPieceIds("unun", {.continuing_prefix = "@@"}), ElementsAre(0));
}

std::vector<uint32_t> UnigramIds(std::string_view word, bool byte_fallback = false) {
  Entries entries =
      Numbered({"<unk>", "a", "b", "c", "d", "cd", "ab", "abc", "abcd", "xy", "<0x7A>"});
  const std::vector<double> scores = {0, 0, 0, 0, 0, 1, 2, 5, 10, -1, 0};
  const Result<Unigram> model = Unigram::Build(entries, scores, 0, byte_fallback);
  UnigramScratch scratch;
  IdBuffer ids;
  model.value().Append(word, scratch, ids);
  return ToVector(ids);
}

TEST(Unigram, TakesThePathWithTheHighestSum) {
  EXPECT_THAT(UnigramIds("abcd"), ElementsAre(8));
  EXPECT_THAT(UnigramIds("abcda"), ElementsAre(8, 1));
  EXPECT_THAT(UnigramIds("acdb"), ElementsAre(1, 5, 2));  // 0 + 1 + 0
  EXPECT_THAT(UnigramIds("abab"), ElementsAre(6, 6));
}

TEST(Unigram, UnknownCharactersAreTakenTogether) {
  EXPECT_THAT(UnigramIds("azzb"), ElementsAre(1, 0, 2));
  EXPECT_THAT(UnigramIds("zz"), ElementsAre(0));
  EXPECT_THAT(UnigramIds("\u00e9z\u00e9"), ElementsAre(0));
}

TEST(Unigram, BytesStandForUnknowns) {
  EXPECT_THAT(UnigramIds("azzb", true), ElementsAre(1, 10, 10, 2));
  EXPECT_THAT(UnigramIds("az\u00e9", true), ElementsAre(1, 0));  // the bytes of e are not all known
}

TEST(Unigram, OfEqualPathsTheFirstFoundStays) {
  Entries entries = Numbered({"<unk>", "a", "aa"});
  const Result<Unigram> model = Unigram::Build(entries, {-9, -1, -2}, 0, false);
  UnigramScratch scratch;
  IdBuffer ids;
  model.value().Append("aaa", scratch, ids);
  // To 2: a+a (-2) comes after aa (-2) was found at 0, so aa stays; to 3: a(1)+aa was found first.
  EXPECT_THAT(ToVector(ids), ElementsAre(1, 2));
}

// The window must not change the path: a long word against the same one cut where paths meet.
TEST(Unigram, LongWordsAreTheSameAsTheirParts) {
  std::string word;
  std::vector<uint32_t> expected;
  for (int i = 0; i < 20000; ++i) {
    word += "abcdacdzzab";
    for (const uint32_t id : {8, 1, 5, 0, 6}) expected.push_back(id);
  }
  EXPECT_EQ(UnigramIds(word), expected);
}

// The ways to even and to odd places never meet, so nothing is decided before the end.
TEST(Unigram, AWordThatStaysOpenIsDecidedAtItsEnd) {
  Entries entries = Numbered({"<unk>", "q", "qq"});
  const Result<Unigram> model = Unigram::Build(entries, {-9, -1.5, -2}, 0, false);
  UnigramScratch scratch;
  IdBuffer ids;
  model.value().Append(std::string(300'001, 'q'), scratch, ids);
  std::vector<uint32_t> expected(150'001, 2);
  expected[0] = 1;  // q+qq is found before qq+q
  EXPECT_EQ(ToVector(ids), expected);
  EXPECT_LE(scratch.ways.size(), 100'000u);
}

TEST(Unigram, TheUnknownIdMustExist) {
  Entries entries = Numbered({"a"});
  const Result<Unigram> model = Unigram::Build(entries, {0}, 1, false);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message(), HasSubstr("unk_id 1 is not below the 1 pieces"));
}

std::vector<uint32_t> BpeIds(std::string_view word, const BpeOptions& options = {}) {
  Entries entries =
      Numbered({"<unk>", "a", "b", "c", "ab", "bc", "abc", "<0xC3>", "<0xA9>", "abcabc"});
  const Result<Bpe> model = Bpe::Build(entries, {{"b", "c"}, {"a", "b"}, {"a", "bc"}}, options);
  BpeScratch scratch;
  IdBuffer ids;
  model.value().Append(word, scratch, ids);
  return ToVector(ids);
}

TEST(Bpe, MergesInTheOrderLearned) {
  EXPECT_THAT(BpeIds("abc"), ElementsAre(6));  // bc first, then a + bc
  EXPECT_THAT(BpeIds("ab"), ElementsAre(4));
  EXPECT_THAT(BpeIds("abab"), ElementsAre(4, 4));
  EXPECT_THAT(BpeIds("aabcb"), ElementsAre(1, 6, 2));
}

TEST(Bpe, UnknownCharacters) {
  EXPECT_THAT(BpeIds("azzb"), ElementsAre(4));  // without an unknown token they vanish
  EXPECT_THAT(BpeIds("azzb", {.unknown_token = "<unk>"}), ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(BpeIds("azzb", {.unknown_token = "<unk>", .fuse_unknown = true}),
              ElementsAre(1, 0, 2));
  EXPECT_THAT(BpeIds("a\u00e9", {.unknown_token = "<unk>", .byte_fallback = true}),
              ElementsAre(1, 7, 8));
  EXPECT_THAT(BpeIds("az", {.unknown_token = "<unk>", .byte_fallback = true}), ElementsAre(1, 0));
}

TEST(Bpe, IgnoreMergesKeepsWholeTokens) {
  EXPECT_THAT(BpeIds("abcabc"), ElementsAre(6, 6));
  EXPECT_THAT(BpeIds("abcabc", {.ignore_merges = true}), ElementsAre(9));
}

TEST(Bpe, MergesMustBeInTheVocabulary) {
  Entries entries = Numbered({"a", "b"});
  const Result<Bpe> model = Bpe::Build(entries, {{"a", "b"}}, {});
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message(), HasSubstr("merge 0 ('a' and 'b'): 'ab' is not in"));
}

}  // namespace
}  // namespace sprat
