// Faults met in other engines, of the kind "truncation", as tests named after their reports.
#include <gmock/gmock.h>

#include <chrono>

#include "engine_for_test.h"

namespace sprat {
namespace {

using testing::Each;
using testing::ElementsAre;

// A small model with BERT's vocabulary, 512 positions and a tokenizer.json that says 128.
TinyModel WithLimit(uint32_t max_sequence) {
  TinyModel model;
  model.config.positions = 512;
  model.vocabulary = BertVocabulary();
  model.max_sequence = max_sequence;
  return model;
}

std::string Words(size_t n) { return Repeated("word ", n); }

TEST(B22, TheLimitIsTheOneOfTheSentenceFile) {
  const Engine engine = OpenOrDie(WithLimit(256));
  EXPECT_EQ(engine.info().max_length, 256u);
  EXPECT_EQ(engine.info().position_limit, 512u);
  Result<Tokens> tokens = engine.Tokenize(Words(300));
  ASSERT_TRUE(tokens.ok());
  ASSERT_EQ(tokens.value().ids.size(), 256u);
  EXPECT_EQ(tokens.value().ids.front(), 101u);
  EXPECT_EQ(tokens.value().ids.back(), 102u);
  EXPECT_THAT(std::vector<uint32_t>(tokens.value().ids.begin() + 1, tokens.value().ids.end() - 1),
              Each(2773u));
  EXPECT_TRUE(tokens.value().truncated);

  const Embeddings rows = EmbedOrDie(engine, {Words(300), Words(254), Words(253), Words(126)});
  EXPECT_THAT(rows.tokens, ElementsAre(256, 256, 255, 128));
  EXPECT_THAT(rows.truncated, ElementsAre(1, 0, 0, 0));
  EXPECT_TRUE(SameBits(rows.Row(0), rows.Row(1)));
  EXPECT_FALSE(SameBits(rows.Row(0), rows.Row(2)));
  EXPECT_FALSE(SameBits(rows.Row(0), rows.Row(3)));
}

TEST(B22, PaddingAndTruncationOfTokenizerJsonDoNotCount) {
  TinyModel model = WithLimit(256);
  model.tokenizer_json = true;
  const std::filesystem::path directory = model.Write();
  std::string json = ReadFile(directory / "tokenizer.json", 1 << 22).value();
  const std::string none = "\"truncation\": null, \"padding\": null";
  ASSERT_NE(json.find(none), json.npos);
  json.replace(json.find(none), none.size(),
               R"("truncation": {"max_length": 128, "strategy": "LongestFirst", "stride": 0},
                  "padding": {"strategy": {"Fixed": 128}, "direction": "Right", "pad_id": 0,
                  "pad_to_multiple_of": null, "pad_type_id": 0, "pad_token": "[PAD]"})");
  WriteTestFile(directory / "tokenizer.json", json);
  const Engine engine = OpenOrDie(directory);
  EXPECT_THAT(EmbedOrDie(engine, {Words(300), "word"}).tokens, ElementsAre(256, 3));
}

TEST(B24, OneTextAndAListOfOneAreTreatedAlike) {
  const Engine engine = OpenOrDie(WithLimit(512));
  const std::string text = Words(600);
  Result<Embeddings> one = engine.EmbedOne(text);
  ASSERT_TRUE(one.ok()) << one.error().message();
  const Embeddings list = EmbedOrDie(engine, {text});
  EXPECT_TRUE(SameBits(one.value().values, list.values));
  EXPECT_THAT(one.value().truncated, ElementsAre(1));
  EXPECT_THAT(list.truncated, ElementsAre(1));

  const std::string_view view = text;
  Result<Embeddings> one_refused = engine.EmbedOne(text, {.truncate = false});
  Result<Embeddings> list_refused = engine.Embed({&view, 1}, {.truncate = false});
  ASSERT_FALSE(one_refused.ok());
  ASSERT_FALSE(list_refused.ok());
  EXPECT_EQ(one_refused.error().code(), ErrorCode::kTooLong);
  EXPECT_EQ(list_refused.error().code(), ErrorCode::kTooLong);
  EXPECT_EQ(one_refused.error().message(), list_refused.error().message());
  EXPECT_THAT(one_refused.error().message(), testing::HasSubstr("602"));
  EXPECT_THAT(one_refused.error().message(), testing::HasSubstr("512"));
}

TEST(B26, TheMaximumLengthIsLegal) {
  const Engine engine = OpenOrDie(WithLimit(256));
  const std::vector<std::string> short_texts(7, "good");
  std::vector<std::vector<float>> vectors;
  for (const size_t words : {253u, 254u}) {
    const EmbedOptions whole{.truncate = false};
    const Embeddings alone = EmbedOrDie(engine, {Words(words)}, whole);
    EXPECT_THAT(alone.tokens, ElementsAre(words + 2));
    EXPECT_THAT(alone.truncated, ElementsAre(0));
    std::vector<std::string> batch = short_texts;
    batch.push_back(Words(words));
    const Embeddings last = EmbedOrDie(engine, batch, whole);
    EXPECT_EQ(last.tokens.back(), words + 2);
    EXPECT_TRUE(SameBits(last.Row(7), alone.Row(0)));
    vectors.push_back(alone.values);
  }
  EXPECT_FALSE(SameBits(vectors[0], vectors[1]));

  const std::string over = Words(255);
  Result<Embeddings> refused = engine.EmbedOne(over, {.truncate = false});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLong);
  std::vector<std::string_view> batch(short_texts.begin(), short_texts.end());
  batch.push_back(over);
  Result<Embeddings> batch_refused = engine.Embed(batch, {.truncate = false});
  ASSERT_FALSE(batch_refused.ok());
  EXPECT_EQ(batch_refused.error().code(), ErrorCode::kTooLong);
  // The engine goes on as before.
  EXPECT_TRUE(SameBits(VectorOf(engine, Words(254)), vectors[1]));
}

TEST(B28, EveryModelHasItsOwnLimit) {
  const Engine engine = OpenOrDie(WithLimit(512));
  EXPECT_EQ(engine.info().max_length, 512u);
  const Embeddings rows = EmbedOrDie(engine, {Words(600), Words(510), Words(254)});
  EXPECT_THAT(rows.tokens, ElementsAre(512, 512, 256));
  EXPECT_TRUE(SameBits(rows.Row(0), rows.Row(1)));
  EXPECT_FALSE(SameBits(rows.Row(0), rows.Row(2)));
}

TEST(B28, AModelWithoutTheSentenceFileUsesItsWholePositionTable) {
  TinyModel model = WithLimit(1);
  model.max_sequence.reset();
  EXPECT_EQ(OpenOrDie(model).info().max_length, 512u);
}

// Limits with no room for a word between [CLS] and [SEP].
TEST(B26, TinyLimitsAreKept) {
  for (const uint32_t limit : {1u, 2u, 3u}) {
    TinyModel model;
    model.max_sequence = limit;
    Result<Engine> engine = Engine::Open(model.Write());
    if (!engine.ok()) {
      EXPECT_LT(limit, 3u);
      EXPECT_THAT(engine.error().message(), testing::HasSubstr("max_seq_length"));
      continue;
    }
    const Embeddings rows = EmbedOrDie(engine.value(), {"good morning"});
    EXPECT_LE(rows.tokens[0], limit);
    EXPECT_TRUE(AllFinite(rows.values));
  }
}

}  // namespace
}  // namespace sprat
