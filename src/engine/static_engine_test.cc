// Static models through the public API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "model/model_writer_for_test.h"
#include "sprat/engine.h"

namespace sprat {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

TEST(StaticEngine, VectorsOfTokensAreTheirRows) {
  const Engine engine = Open({});
  const Result<std::vector<float>> each =
      engine.EmbedEachToken(std::vector<uint32_t>{7, 5, 7}, std::vector<size_t>{0, 0, 2, 3});
  ASSERT_TRUE(each.ok()) << each.error().message();
  EXPECT_THAT(each.value(), ElementsAre(7, 1, 5, 1, 7, 1));
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

// What is cut before unknown tokens are dropped is cut, even if few tokens are left.
TEST(StaticEngine, ForbiddingTheCutRefusesExactlyWhatWouldBeCut) {
  const Engine engine = Open({.config = R"({"max_length": 3})"});
  const EmbedOptions whole{.truncate = false};
  EXPECT_TRUE(engine.EmbedOne("a \u4e16 b", whole).ok());
  for (const std::string_view text : {"a \u4e16 \u4e16 b", "a b a b"}) {
    ASSERT_EQ(engine.EmbedOne(text).value().truncated[0], 1) << text;
    const Result<Embeddings> refused = engine.EmbedOne(text, whole);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::kTooLong);
    EXPECT_THAT(refused.error().message(), HasSubstr("4 tokens, expected at most"));
  }
}

TEST(StaticEngine, ADamagedCheckpointIsNamed) {
  const std::filesystem::path directory = TinyStatic{}.Write();
  std::filesystem::resize_file(directory / "model.safetensors", 40);
  const Result<Engine> engine = Engine::Open(directory);
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().message(), HasSubstr("model.safetensors"));
  EXPECT_THAT(engine.error().message(), Not(HasSubstr("model_type")));
}

TEST(StaticEngine, AMissingFileIsNamed) {
  for (const char* name : {"model.safetensors", "tokenizer.json"}) {
    for (const char* config : {R"({"normalize": false})", R"({"model_type": "model2vec"})"}) {
      const std::filesystem::path directory = TinyStatic{.config = config}.Write();
      std::filesystem::remove(directory / name);
      const Result<Engine> engine = Engine::Open(directory);
      ASSERT_FALSE(engine.ok());
      EXPECT_EQ(engine.error().code(), ErrorCode::kNotFound);
      EXPECT_THAT(engine.error().message(), HasSubstr(std::string(name) + ": no such file"));
    }
  }
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

TEST(StaticEngine, NormalisesIfItsConfigurationSaysSo) {
  const auto length = [](const TinyStatic& model, const EmbedOptions& options = {}) {
    const std::vector<float> v = Open(model).EmbedOne("good", options).value().values;
    return std::hypot(v[0], v[1]);
  };
  const TinyStatic silent{.config = "{}"}, no{}, yes{.config = R"({"normalize": true})"};
  EXPECT_GT(length(silent), 2.0f);  // [id, 1]
  EXPECT_EQ(length(no), length(silent));
  EXPECT_NEAR(length(yes), 1.0f, 1e-6f);
  EXPECT_NEAR(length(silent, {.normalize = true}), 1.0f, 1e-6f);
  EXPECT_EQ(length(yes, {.normalize = false}), length(silent));
}

TEST(StaticEngine, SentenceTransformersNormalisesIfItsModulesSaySo) {
  const auto directory = TinyStatic{.config = R"({"normalize": true})"}.Write();
  const auto length = [&directory](const std::string& semantics) {
    Result<Engine> engine = Engine::Open(directory, {.static_semantics = semantics});
    EXPECT_TRUE(engine.ok()) << engine.error().message();
    const std::vector<float> v = engine.value().EmbedOne("good").value().values;
    return std::hypot(v[0], v[1]);
  };
  const std::string table = R"({"type": "sentence_transformers.models.StaticEmbedding"})";
  WriteTestFile(directory / "modules.json", "[" + table + "]");
  EXPECT_GT(length("st"), 2.0f);
  EXPECT_NEAR(length("model2vec"), 1.0f, 1e-6f);
  WriteTestFile(directory / "modules.json",
                "[" + table + R"(, {"type": "sentence_transformers.models.Normalize"}])");
  EXPECT_NEAR(length("st"), 1.0f, 1e-6f);
}

// Texts of all lengths, enough for several windows (1,024 texts, 65,536 tokens) and threads.
std::vector<std::string> ManyTexts() {
  const char* const words[] = {"good", "morning", "bank", "river", "\U0001f98a", "a"};
  std::vector<std::string> texts;
  for (size_t i = 0; i < 5000; ++i) {
    std::string text;
    for (size_t n = i % 997 == 0 ? 400 : i * 7 % 23; n > 0; --n) {
      text += std::string(words[(i + n * n) % 6]) + " ";
    }
    texts.push_back(text);
  }
  return texts;
}

std::vector<std::string_view> Views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

TEST(StaticEngine, NeitherThreadsNorBordersOfWindowsShow) {
  const std::vector<std::string> texts = ManyTexts();
  const Engine engine = Open({}, {.threads = 3}), alone = Open({}, {.threads = 1});
  Result<Embeddings> all = engine.Embed(Views(texts));
  ASSERT_TRUE(all.ok()) << all.error().message();
  for (size_t i = 0; i < texts.size(); ++i) {
    const Embeddings one = alone.EmbedOne(texts[i]).value();
    ASSERT_EQ(std::memcmp(one.values.data(), all.value().Row(i).data(), 2 * sizeof(float)), 0) << i;
    ASSERT_EQ(one.tokens[0], all.value().tokens[i]) << i;
    ASSERT_EQ(one.truncated[0], all.value().truncated[i]) << i;
  }
}

TEST(StaticEngine, TheFirstFaultyTextIsNamedWhateverTheThreads) {
  std::vector<std::string> texts = ManyTexts();
  texts[900] = texts[700] = texts[20] = "good \xff";
  for (const size_t threads : {1u, 3u}) {
    const Engine engine = Open({}, {.threads = threads});
    Result<Embeddings> refused = engine.Embed(Views(texts));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message(), "text 20: the text is not UTF-8 at byte 5");
  }
  texts[20] = "good";
  Result<Embeddings> refused = Open({}, {.threads = 3}).Embed(Views(texts));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), testing::StartsWith("text 700: "));
}

TEST(StaticEngine, CallsAtTheSameTimeGetTheirOwnVectors) {
  const std::vector<std::string> texts = ManyTexts();
  const Engine engine = Open({}, {.threads = 2});
  const Embeddings expected = engine.Embed(Views(texts)).value();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      const Embeddings rows = engine.Embed(Views(texts)).value();
      EXPECT_EQ(rows.values, expected.values);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(StaticEngine, TheFingerprintSeesValuesAndSemantics) {
  const auto print = [](const TinyStatic& model, const EngineOptions& options = {}) {
    return Open(model, options).Fingerprint().value();
  };
  const std::string plain = print({});
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(print({}), plain);
  EXPECT_NE(print({.config = R"({"normalize": true})"}), plain);
  EXPECT_NE(print({.config = R"({"max_length": 7})"}), plain);
  EXPECT_NE(print({}, {.static_semantics = "st"}), plain);
}

}  // namespace
}  // namespace sprat
