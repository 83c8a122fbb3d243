// The tokenizer as a whole on the real BERT vocabulary. Tests with a number B.. are the field
// reports of that number; their ids are those of the reference tokenizer.
#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <clocale>
#include <string>

#include "tokenizer/tokenizer_files_for_test.h"

namespace sprat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kConfig{R"({"do_lower_case": true, "tokenize_chinese_chars": true})"};

// One tokenizer from vocab.txt and one from the equivalent tokenizer.json, made once.
const Tokenizer& FromVocabTxt() {
  static const Tokenizer tokenizer = [] {
    const TestDirectory directory;
    directory.Write("vocab.txt", BertVocabTxt()).Write("tokenizer_config.json", kConfig);
    return OpenOrDie(directory.path());
  }();
  return tokenizer;
}

const Tokenizer& FromJson() {
  static const Tokenizer tokenizer = [] {
    const TestDirectory directory;
    directory.Write("tokenizer.json",
                    BertTokenizerJson(BertVocabTxt(), BertNormalizerJson("true", "null")));
    return OpenOrDie(directory.path());
  }();
  return tokenizer;
}

// B21 asks the same of both kinds of directory, so every case is run on both.
class OnBothFiles : public ::testing::TestWithParam<bool> {
 protected:
  const Tokenizer& tokenizer() const { return GetParam() ? FromJson() : FromVocabTxt(); }
  std::vector<uint32_t> Of(std::string_view text) const { return Ids(tokenizer(), text); }
};
INSTANTIATE_TEST_SUITE_P(B21, OnBothFiles, ::testing::Bool(), [](const auto& kind) {
  return kind.param ? "TokenizerJson" : "VocabTxt";
});

TEST_P(OnBothFiles, B01LineBreaksAndTabsSeparateWords) {
  EXPECT_THAT(Of("rain\nbow"), ElementsAre(101, 4542, 6812, 102));
  EXPECT_THAT(Of("rain\tbow\r\nend"), ElementsAre(101, 4542, 6812, 2203, 102));
}

TEST_P(OnBothFiles, B04AccentsAreStrippedLettersStay) {
  EXPECT_THAT(Of("Dvo\u0159\u00e1k"), ElementsAre(101, 1040, 14550, 4817, 102));
  EXPECT_EQ(Of("Dvo\u0159\u00e1k"), Of("dvorak"));
  EXPECT_THAT(Of("Ky\u014dto"), ElementsAre(101, 15008, 102));
  EXPECT_THAT(Of("S\u00e3o Tom\u00e9"), ElementsAre(101, 7509, 21269, 102));
}

TEST_P(OnBothFiles, B06TurkishIInEveryLocale) {
  for (const char* locale : {"C", "tr_TR.UTF-8"}) {
    std::setlocale(LC_ALL, locale);  // where it is not installed, C stays
    EXPECT_THAT(Of("\u0130zmir"), ElementsAre(101, 1045, 2480, 14503, 102));
    EXPECT_THAT(Of("\u0131\u015f\u0131k"), ElementsAre(101, 1104, 2015, 11722, 2243, 102));
    EXPECT_THAT(Of("GOOD Morning"), ElementsAre(101, 2204, 2851, 102));
  }
  std::setlocale(LC_ALL, "C");
}

TEST_P(OnBothFiles, B08VoicedMarksAreStripped) {
  EXPECT_THAT(Of("\u30ac\u30e9\u30b9"), ElementsAre(101, 1700, 30257, 30233, 102));
  EXPECT_THAT(Of("\u30ab\u3099\u30e9\u30b9"), ElementsAre(101, 1700, 30257, 30233, 102));
  EXPECT_THAT(Of("\u30d1\u30f3"), ElementsAre(101, 1718, 30263, 102));
  EXPECT_THAT(Of("\u30cf\u30f3"), ElementsAre(101, 1718, 30263, 102));
}

TEST_P(OnBothFiles, B10OneUnknownCharacterMakesTheWordUnknown) {
  EXPECT_THAT(Of("river\U0001F98Abank"), ElementsAre(101, 100, 102));
  EXPECT_THAT(Of("playerzzq"), ElementsAre(101, 2447, 13213, 4160, 102));
}

TEST_P(OnBothFiles, B12WordsOverAHundredCharacters) {
  std::string word;
  for (int i = 0; i < 50; ++i) word += "ab";
  const std::vector<uint32_t> ids = Of(word);
  ASSERT_EQ(ids.size(), 52u);
  EXPECT_EQ(ids[1], 19557u);
  for (size_t i = 2; i < 50; ++i) EXPECT_EQ(ids[i], 3676u) << i;
  EXPECT_EQ(ids[50], 2497u);
  EXPECT_THAT(Of(word + "c"), ElementsAre(101, 100, 102));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(Of(std::string(1000000, 'a')), ElementsAre(101, 100, 102));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_P(OnBothFiles, B14SpecialTokensInTheText) {
  EXPECT_THAT(Of("stop[SEP]go"), ElementsAre(101, 2644, 102, 2175, 102));
  EXPECT_THAT(Of("[MASK]ed"), ElementsAre(101, 103, 3968, 102));
  EXPECT_THAT(Of("[CLS] only"), ElementsAre(101, 101, 2069, 102));
  EXPECT_THAT(Ids(tokenizer(), "stop[SEP]go", {.parse_special_tokens = false}),
              ElementsAre(101, 2644, 1031, 19802, 1033, 2175, 102));
}

TEST_P(OnBothFiles, B16WhichCharactersSplitWords) {
  EXPECT_THAT(Of("cost\u2013benefit"), ElementsAre(101, 3465, 1516, 5770, 102));
  EXPECT_THAT(Of("yes\u2026no"), ElementsAre(101, 2748, 1529, 2053, 102));
  EXPECT_THAT(Of("a`b^c$d+e|f=g~h<i>j"),
              ElementsAre(101, 1037, 1036, 1038, 1034, 1039, 1002, 1040, 1009, 1041, 1064, 1042,
                          1027, 1043, 1066, 1044, 1026, 1045, 1028, 1046, 102));
  EXPECT_THAT(Of("7\u20ac"), ElementsAre(101, 1021, 30102, 102));
  EXPECT_THAT(Of("logo\u2122"), ElementsAre(101, 8154, 30108, 102));
  EXPECT_THAT(Of("x_y"), ElementsAre(101, 1060, 1035, 1061, 102));
}

TEST_P(OnBothFiles, B22TheLimitTravelsWithTheCall) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "word ";
  std::vector<uint32_t> ids;
  const auto made = tokenizer().Tokenize(text, {.max_tokens = 256}, ids);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made.value().tokens, 256u);
  EXPECT_TRUE(made.value().truncated);
  std::vector<uint32_t> expected(256, 2773);
  expected.front() = 101;
  expected.back() = 102;
  EXPECT_EQ(ids, expected);
}

TEST_P(OnBothFiles, CutsAtExactlyTheLimit) {
  std::vector<uint32_t> ids = {7};
  auto made = tokenizer().Tokenize("good morning", {.max_tokens = 4}, ids);
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(made.value().truncated);
  EXPECT_THAT(ids, ElementsAre(7, 101, 2204, 2851, 102));
  made = tokenizer().Tokenize("good morning", {.max_tokens = 3}, ids);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made.value().truncated);
  EXPECT_EQ(made.value().tokens, 3u);
  EXPECT_THAT(ids, ElementsAre(7, 101, 2204, 2851, 102, 101, 2204, 102));
  made = tokenizer().Tokenize("good [SEP]", {.max_tokens = 1, .add_special_tokens = false}, ids);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made.value().truncated);
  made = tokenizer().Tokenize("good", {.max_tokens = 1}, ids);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(made.error().message(), HasSubstr("at least 2"));
}

TEST_P(OnBothFiles, EmptyAndBlankTexts) {
  EXPECT_THAT(Of(""), ElementsAre(101, 102));
  EXPECT_THAT(Of(" \t\n\u3000\u200b"), ElementsAre(101, 102));
  EXPECT_THAT(Ids(tokenizer(), "", {.add_special_tokens = false}), IsEmpty());
}

TEST_P(OnBothFiles, RefusesInvalidUtf8AndAppendsNothing) {
  std::vector<uint32_t> ids = {7};
  const auto made = tokenizer().Tokenize("caf\xE9 au lait", {}, ids);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(made.error().message(), HasSubstr("byte 3"));
  EXPECT_THAT(ids, ElementsAre(7));
}

TEST_P(OnBothFiles, TokensById) {
  EXPECT_EQ(tokenizer().Token(102), "[SEP]");
  EXPECT_EQ(tokenizer().Token(13213), "##zz");
  EXPECT_EQ(tokenizer().Token(30522), std::nullopt);
  EXPECT_EQ(tokenizer().vocabulary_size(), 30522u);
}

// Words around every border of the 64-byte blocks and of the 15-byte cache keys.
TEST_P(OnBothFiles, TheSameIdsAtEveryOffset) {
  for (size_t offset = 0; offset < 140; ++offset) {
    const std::string padding(offset, ' ');
    for (const char* word : {"a", "good", "unaffable", "incomprehensibly"}) {
      const std::vector<uint32_t> alone = Ids(tokenizer(), word, {.add_special_tokens = false});
      EXPECT_EQ(Ids(tokenizer(), padding + word, {.add_special_tokens = false}), alone);
      std::vector<uint32_t> twice = alone;
      twice.insert(twice.end(), alone.begin(), alone.end());
      EXPECT_EQ(Ids(tokenizer(), padding + word + " " + word, {.add_special_tokens = false}),
                twice);
    }
  }
}

TEST(Tokenizer, B19NullStripAccentsFollowsLowercase) {
  const auto of = [](const std::string& normalizer, std::string_view text) {
    const TestDirectory directory;
    directory.Write("tokenizer.json", BertTokenizerJson(BertVocabTxt(), normalizer));
    return Ids(OpenOrDie(directory.path()), text);
  };
  EXPECT_THAT(of(BertNormalizerJson("true", "null"), "CAF\u00c9"), ElementsAre(101, 7668, 102));
  EXPECT_THAT(of(BertNormalizerJson("true", "false"), "CAF\u00c9"), ElementsAre(101, 100, 102));
  EXPECT_THAT(of(BertNormalizerJson("false", "null"), "GOOD morning"),
              ElementsAre(101, 100, 2851, 102));
}

TEST(Tokenizer, BehaviourIsThatOfTheIdsNotOfTheFiles) {
  EXPECT_EQ(FromVocabTxt().Behaviour(), FromJson().Behaviour());
  const TestDirectory cased;
  cased.Write("vocab.txt", BertVocabTxt())
      .Write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_NE(OpenOrDie(cased.path()).Behaviour(), FromJson().Behaviour());
  const TestDirectory
      defaults;  // what tokenizer_config.json leaves out has BertTokenizer's default
  defaults.Write("vocab.txt", BertVocabTxt());
  EXPECT_EQ(OpenOrDie(defaults.path()).Behaviour(), FromJson().Behaviour());
  const TestDirectory unlimited;  // as transformers writes it
  unlimited.Write("vocab.txt", BertVocabTxt())
      .Write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(OpenOrDie(unlimited.path()).Behaviour(), FromJson().Behaviour());
  std::string swapped = BertVocabTxt();
  const size_t at = swapped.find("\ngood\n");
  swapped.replace(at, 6, "\ngoob\n");
  const TestDirectory other;
  other.Write("vocab.txt", swapped);
  EXPECT_NE(OpenOrDie(other.path()).Behaviour(), FromJson().Behaviour());
}

TEST(Tokenizer, TrailingSpaceOfVocabularyLinesIsTrimmed) {
  const TestDirectory directory;
  directory.Write("vocab.txt",
                  "[PAD] \r\n[UNK]\t\n[CLS]\r\n[SEP]\u3000\n[MASK]\nrain\r\n##bow \n\n end");
  EXPECT_THAT(Ids(OpenOrDie(directory.path()), "Rainbow end"), ElementsAre(2, 5, 6, 1, 3));
}

TEST(Tokenizer, TokenizerJsonGoesBeforeVocabTxt) {
  const TestDirectory directory;
  directory
      .Write("tokenizer.json",
             BertTokenizerJson(BertVocabTxt(), BertNormalizerJson("true", "null")))
      .Write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n");
  EXPECT_EQ(OpenOrDie(directory.path()).vocabulary_size(), 30522u);
}

// What Open says about a tokenizer.json in which `from` is replaced by `to`.
Error OpenChanged(const std::string& from, const std::string& to) {
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
  std::string json = BertTokenizerJson(vocabulary, BertNormalizerJson("true", "null"));
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  json.replace(at, from.size(), to);
  const TestDirectory directory;
  directory.Write("tokenizer.json", json);
  Result<Tokenizer> opened = Tokenizer::Open(directory.path());
  EXPECT_FALSE(opened.ok()) << from << " -> " << to;
  return opened.ok() ? Error(ErrorCode::kInternal, "") : opened.error();
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByPlaceAndType) {
  Error error = OpenChanged("BertNormalizer", "Frobnicate");
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("tokenizer.json: normalizer: type 'Frobnicate'"));
  error = OpenChanged("BertPreTokenizer", "Frobnicate");
  EXPECT_THAT(error.message(), HasSubstr("pre_tokenizer: type 'Frobnicate' is not supported"));
  error = OpenChanged("WordPiece", "Frobnicate");
  EXPECT_THAT(error.message(), HasSubstr("model: type 'Frobnicate' is not supported"));
  error = OpenChanged("TemplateProcessing", "Frobnicate");
  EXPECT_THAT(error.message(), HasSubstr("post_processor: type 'Frobnicate' is not supported"));
}

TEST(Tokenizer, SaysWhichKeyIsWrong) {
  EXPECT_THAT(OpenChanged(R"("lowercase":true)", R"("lowercase":3)").message(),
              HasSubstr("normalizer.lowercase must be true or false, found 3"));
  EXPECT_THAT(OpenChanged(R"(,"lowercase":true)", "").message(),
              HasSubstr("normalizer.lowercase is missing"));
  EXPECT_THAT(OpenChanged(R"("[CLS]":2)", R"("[CLS]":-2)").message(),
              HasSubstr("model.vocab['[CLS]'] must be an id from 0 to 8388607, found -2"));
  EXPECT_THAT(OpenChanged(R"("unk_token":"[UNK]")", R"("unk_token":"[unk]")").message(),
              HasSubstr("the unknown token '[unk]' is not in the vocabulary"));
  EXPECT_THAT(OpenChanged(R"("ids":[101])", R"("ids":["101"])").message(),
              HasSubstr("post_processor.special_tokens.[CLS].ids[0] must be an integer"));
  EXPECT_THAT(OpenChanged(R"("ids":[101])", R"("ids":[4000000000])").message(),
              HasSubstr("have the id 4000000000, expected one below the vocabulary's size of 5"));
  EXPECT_THAT(OpenChanged(R"("lstrip":false)", R"("lstrip":"no")").message(),
              HasSubstr("added_tokens[0].lstrip must be true or false, found \"no\""));
  EXPECT_THAT(OpenChanged(R"({"version":"1.0")", R"({"version")").message(), HasSubstr("not JSON"));
}

TEST(Tokenizer, SaysWhichFileIsMissing) {
  const TestDirectory directory;
  const Result<Tokenizer> opened = Tokenizer::Open(directory.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(opened.error().message(), HasSubstr("neither tokenizer.json nor vocab.txt"));
}

TEST(Tokenizer, AVocabularyWithoutItsSpecialTokensIsCorrupt) {
  const TestDirectory directory;
  directory.Write("vocab.txt", "[UNK]\n[CLS]\n");
  const Result<Tokenizer> opened = Tokenizer::Open(directory.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(opened.error().message(), HasSubstr("'[SEP]' is not in the vocabulary"));
}

}  // namespace
}  // namespace sprat
