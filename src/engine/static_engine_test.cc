// Static models through the public API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/model_writer_for_test.h"
#include "sprat/engine.h"

namespace sprat {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// A static model whose table has the row [id, 1] for each entry of the tiny vocabulary.
struct TinyStatic {
  std::string config = R"({"normalize": false})";
  size_t extra_rows = 0;

  std::filesystem::path Write() const {
    TinyModel encoder{.write_weights = false, .vocab_txt = false, .tokenizer_json = true};
    encoder.modules_json = false;
    const std::filesystem::path directory = encoder.Write();
    WriteTestFile(directory / "config.json", config);
    const size_t rows = TinyVocabulary().size() + extra_rows;
    TestTensor table{.name = "embeddings", .shape = {rows, 2}, .values = {}};
    for (size_t i = 0; i < rows; ++i) {
      table.values.push_back(static_cast<float>(i));
      table.values.push_back(1.0f);
    }
    WriteTestFile(directory / "model.safetensors", SafetensorsBytes({table}));
    return directory;
  }
};

Engine Open(const TinyStatic& model, const EngineOptions& options = {}) {
  Result<Engine> engine = Engine::Open(model.Write(), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message();
  return std::move(engine).value();
}

Embeddings Raw(const Engine& engine, const std::string& text) {
  Result<Embeddings> row = engine.EmbedOne(text, {.normalize = false});
  EXPECT_TRUE(row.ok()) << row.error().message();
  return std::move(row).value();
}

float IdOf(const Engine& engine, const std::string& word) { return Raw(engine, word).values[0]; }

TEST(StaticEngine, FindsOutByItselfWhatTheDirectoryHolds) {
  const Engine engine = Open({});
  EXPECT_EQ(engine.info().family, "static");
  EXPECT_EQ(engine.info().dimensions, 2u);
  EXPECT_EQ(engine.info().max_length, 512u);
  EXPECT_EQ(engine.info().vocabulary, TinyVocabulary().size());
}

TEST(StaticEngine, TheVectorIsTheMeanOfTheRowsWithoutSpecialTokens) {
  const Engine engine = Open({});
  const Embeddings row = Raw(engine, "good morning");
  EXPECT_THAT(row.tokens, ElementsAre(2));
  EXPECT_EQ(row.values[0], (IdOf(engine, "good") + IdOf(engine, "morning")) / 2);
  EXPECT_EQ(row.values[1], 1.0f);
}

TEST(B60, UnknownTokensAreDroppedAndNothingLeftIsZero) {
  const Engine engine = Open({});
  EXPECT_THAT(Raw(engine, "").values, Each(0.0f));
  EXPECT_THAT(Raw(engine, "\u4e16 \U0001f98a").values, Each(0.0f));
  EXPECT_EQ(Raw(engine, "good \U0001f98a morning").values, Raw(engine, "good morning").values);
  Result<Embeddings> normalised = engine.EmbedOne("\u4e16");
  ASSERT_TRUE(normalised.ok());
  EXPECT_THAT(normalised.value().values, Each(0.0f));
}

TEST(StaticEngine, SentenceTransformersDropsNothingAndCutsNothing) {
  const Engine engine = Open({.config = R"({"max_length": 2})"}, {.static_semantics = "st"});
  const Embeddings unknown = Raw(engine, "\U0001f98a");
  EXPECT_THAT(unknown.tokens, ElementsAre(1));
  EXPECT_EQ(unknown.values[0], 1.0f);  // [UNK] is entry 1
  EXPECT_THAT(Raw(engine, "good good good").tokens, ElementsAre(3));
}

TEST(StaticEngine, TheCutComesBeforeTheDrop) {
  // Two tokens are kept, the second of which is unknown.
  const Engine engine = Open({.config = R"({"max_length": 2})"});
  const Embeddings row = Raw(engine, "a \U0001f98a b");
  EXPECT_THAT(row.tokens, ElementsAre(1));
  EXPECT_THAT(row.truncated, ElementsAre(1));
  EXPECT_EQ(row.values[0], IdOf(engine, "a"));
}

TEST(StaticEngine, OnlyMaxLengthTimesTheMedianCharactersAreRead) {
  // The entries of the vocabulary are one or three code points long for the most part.
  const Engine engine = Open({.config = R"({"max_length": 3})"});
  const Embeddings long_word = Raw(engine, "bank" + std::string(5000, ' ') + "river");
  EXPECT_THAT(long_word.tokens, ElementsAre(testing::Le(3u)));
  EXPECT_THAT(long_word.truncated, ElementsAre(1));
  Result<Embeddings> invalid = engine.EmbedOne("bank" + std::string(5000, ' ') + "\xff");
  ASSERT_FALSE(invalid.ok());
  EXPECT_THAT(invalid.error().message(), HasSubstr("not UTF-8 at byte 5004"));
}

TEST(StaticEngine, ATableOfAnotherSizeIsRefused) {
  const TinyStatic model{.extra_rows = 1};
  Result<Engine> refused = Engine::Open(model.Write());
  ASSERT_FALSE(refused.ok());
  const size_t entries = TinyVocabulary().size();
  EXPECT_THAT(refused.error().message(),
              HasSubstr("the tokenizer has " + std::to_string(entries) +
                        " entries, but the table has " + std::to_string(entries + 1) + " rows"));
}

TEST(StaticEngine, OptionsThatDoNotFitAreRefused) {
  const auto directory = TinyStatic{}.Write();
  EXPECT_THAT(Engine::Open(directory, {.pooling = "cls"}).error().message(), HasSubstr("'cls'"));
  EXPECT_THAT(Engine::Open(directory, {.static_semantics = "x"}).error().message(),
              HasSubstr("'model2vec' or 'st', got 'x'"));
  EXPECT_THAT(Engine::Open(directory, {.max_length = 0}).error().message(),
              HasSubstr("max_length"));
}

TEST(StaticEngine, TheFingerprintSeesValuesAndSemantics) {
  const auto print = [](const TinyStatic& model, const EngineOptions& options = {}) {
    return Open(model, options).Fingerprint().value();
  };
  const std::string plain = print({});
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(print({.config = R"({"normalize": true})"}), plain);
  EXPECT_NE(print({.config = R"({"max_length": 7})"}), plain);
  EXPECT_NE(print({}, {.static_semantics = "st"}), plain);
}

}  // namespace
}  // namespace sprat
