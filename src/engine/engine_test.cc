#include "sprat/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Engine Open(const TinyModel& model, const EngineOptions& options = {}) {
  Result<Engine> engine = Engine::Open(model.Write(), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message();
  return std::move(engine).value();
}

Embeddings Embed(const Engine& engine, const std::vector<std::string>& texts,
                 const EmbedOptions& options = {}) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  Result<Embeddings> embeddings = engine.Embed(views, options);
  EXPECT_TRUE(embeddings.ok()) << embeddings.error().message();
  return std::move(embeddings).value();
}

std::vector<float> Vector(const Engine& engine, const std::string& text,
                          const EmbedOptions& options = {}) {
  const Embeddings one = Embed(engine, {text}, options);
  return one.values;
}

double Norm(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

std::string Words(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += "word ";
  return text;
}

TEST(Engine, RowsComeInTheOrderOfTheTexts) {
  const Engine engine = Open({});
  // Lengths in no order, duplicates, and more texts than one window of 1,024 holds.
  std::vector<std::string> texts;
  for (size_t i = 0; i < 1500; ++i) texts.push_back("rain " + std::to_string(i * 7 % 300));
  const Embeddings all = Embed(engine, texts);
  ASSERT_EQ(all.rows(), 1500u);
  for (const size_t i : {0u, 1u, 299u, 300u, 1023u, 1024u, 1499u}) {
    const std::vector<float> alone = Vector(engine, texts[i]);
    EXPECT_EQ(std::memcmp(alone.data(), all.Row(i).data(), alone.size() * sizeof(float)), 0)
        << texts[i];
  }
}

// Pooling over rows that were asked for one by one gives what the engine pools itself.
TEST(Engine, VectorsOfTokensAreWhatPoolingStartsFrom) {
  const std::string text = Words(140) + "rain";  // more tokens than one chunk of the encoder
  TinyModel model;
  model.config.positions = 256;
  std::vector<float> rows;
  size_t columns = 0;
  for (const char* pooling : {"cls", "max", "lasttoken"}) {
    const Engine engine = Open(model, {.pooling = pooling});
    const Tokens tokens = engine.Tokenize(text).value();
    Result<std::vector<float>> each =
        engine.EmbedEachToken(tokens.ids, std::vector<size_t>{0, tokens.ids.size()});
    ASSERT_TRUE(each.ok()) << each.error().message();
    rows = each.value();
    columns = engine.info().dimensions;
    ASSERT_EQ(rows.size(), tokens.ids.size() * columns);
    const std::vector<float> pooled = Vector(engine, text, {.normalize = false});
    std::vector<float> expected(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(columns));
    for (size_t at = columns; at < rows.size(); ++at) {
      float& value = expected[at % columns];
      if (pooling == std::string("max")) value = std::max(value, rows[at]);
      if (pooling == std::string("lasttoken")) value = rows[at];
    }
    EXPECT_EQ(pooled, expected) << pooling;
  }
}

TEST(Engine, NoVectorOfATokenLeavesWithNaN) {
  TinyModel model;
  model.edit = [](TestTensor& tensor) {
    if (tensor.name == "embeddings.position_embeddings.weight") tensor.values[40] = NAN;
  };
  const Engine engine = Open(model);  // the second position, at 32 columns
  const std::vector<uint32_t> ids = {1, 1};
  EXPECT_TRUE(engine.EmbedEachToken(std::span(ids).first(1), std::vector<size_t>{0, 1}).ok());
  const Result<std::vector<float>> each = engine.EmbedEachToken(ids, std::vector<size_t>{0, 2});
  ASSERT_FALSE(each.ok());
  EXPECT_EQ(each.error().code(), ErrorCode::kInternal);
}

TEST(Engine, VectorsOfTokensThatAreOutOfRangeAreRefused) {
  const Engine engine = Open({});
  const uint32_t beyond = static_cast<uint32_t>(engine.info().vocabulary);
  const Result<std::vector<float>> each =
      engine.EmbedEachToken(std::vector<uint32_t>{1, 1, beyond}, std::vector<size_t>{0, 1, 3});
  ASSERT_FALSE(each.ok());
  EXPECT_EQ(each.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(each.error().message(), HasSubstr("text 1"));
  EXPECT_FALSE(engine.EmbedEachToken({}, {}).ok());
  EXPECT_TRUE(engine.EmbedEachToken({}, std::vector<size_t>{0}).value().empty());
}

TEST(Engine, NoTextsNoRows) {
  const Engine engine = Open({});
  const Embeddings none = Embed(engine, {});
  EXPECT_EQ(none.rows(), 0u);
  EXPECT_TRUE(none.values.empty());
}

TEST(Engine, TheEmptyTextIsAText) {
  const Engine engine = Open({});
  const Embeddings one = Embed(engine, {""});
  EXPECT_THAT(one.tokens, ElementsAre(2));  // [CLS] [SEP]
  EXPECT_NEAR(Norm(one.Row(0)), 1.0, 1e-6);
}

TEST(Engine, DimensionsCutThenNormaliseAgain) {
  const Engine engine = Open({});
  const std::vector<float> full = Vector(engine, "good morning");
  const std::vector<float> cut = Vector(engine, "good morning", {.dimensions = 8});
  ASSERT_EQ(cut.size(), 8u);
  EXPECT_NEAR(Norm(cut), 1.0, 1e-6);
  const double kept = Norm({full.data(), 8});
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(cut[i], full[i] / kept, 1e-6) << i;
}

TEST(Engine, DimensionsOutOfRangeAreRefused) {
  const Engine engine = Open({});
  const std::string_view text = "good";
  for (const size_t d : {size_t{0}, size_t{33}}) {
    Result<Embeddings> refused = engine.Embed({&text, 1}, {.dimensions = d});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message(),
              "dimensions must be between 1 and 32, got " + std::to_string(d));
  }
}

TEST(Engine, TruncationIsReportedARow) {
  const Engine engine = Open({.max_sequence = 16});
  const Embeddings rows = Embed(engine, {Words(14), Words(15), "good"});
  EXPECT_THAT(rows.tokens, ElementsAre(16, 16, 3));
  EXPECT_THAT(rows.truncated, ElementsAre(0, 1, 0));
}

TEST(Engine, TruncationCanBeForbidden) {
  const Engine engine = Open({.max_sequence = 16});
  const std::string fits = Words(14), over = Words(15);
  const std::string_view texts[] = {fits, over};
  EXPECT_TRUE(engine.Embed({texts, 1}, {.truncate = false}).ok());
  Result<Embeddings> refused = engine.Embed(texts, {.truncate = false});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLong);
  EXPECT_EQ(refused.error().message(),
            "text 1: 17 tokens, expected at most the model's maximum of 16");
}

TEST(Engine, MaxLengthOption) {
  TinyModel model{.max_sequence = 16};
  const Engine longer = Open(model, {.max_length = 20});
  EXPECT_THAT(Embed(longer, {Words(30)}).tokens, ElementsAre(20));
  for (const size_t bad : {size_t{2}, size_t{65}}) {
    Result<Engine> refused = Engine::Open(model.Write(), {.max_length = bad});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message(),
              "max_length must be between 3 and 64, the positions of this model, got " +
                  std::to_string(bad));
  }
}

TEST(Engine, TextThatIsNotUtf8NamesTextAndByte) {
  const Engine engine = Open({});
  const std::string_view texts[] = {"good", "go\xff"};
  Result<Embeddings> refused = engine.Embed(texts);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("text 1"), HasSubstr("2")));
  EXPECT_EQ(refused.error().message().find('\xff'), std::string::npos);
}

TEST(Engine, PromptsAreTextPutInFront) {
  TinyModel model;
  model.prompts = {{"query", "query: "}, {"passage", "passage: "}};
  const Engine engine = Open(model);
  const std::vector<float> raw = Vector(engine, "query: good morning");
  EXPECT_EQ(Vector(engine, "good morning", {.prompt_name = "query"}), raw);
  EXPECT_EQ(Vector(engine, "good morning", {.prompt = "query: "}), raw);
  EXPECT_NE(Vector(engine, "good morning"), raw);
  const std::string_view text = "good";
  EXPECT_EQ(engine.Embed({&text, 1}, {.prompt_name = "qery"}).error().message(),
            "unknown prompt name 'qery', expected one of 'passage', 'query'");
  EXPECT_EQ(engine.Embed({&text, 1}, {.prompt_name = "query", .prompt = ""}).error().message(),
            "prompt and prompt_name exclude each other");
}

TEST(Engine, TheDefaultPromptIsAppliedOnceAndCanBeTurnedOff) {
  TinyModel model;
  model.prompts = {{"query", "query: "}};
  model.default_prompt_name = "query";
  const Engine engine = Open(model);
  const std::vector<float> prompted = Vector(engine, "good");
  EXPECT_EQ(Vector(engine, "query: good", {.prompt = ""}), prompted);
  EXPECT_NE(Vector(engine, "good", {.prompt = ""}), prompted);
}

TEST(Engine, TokenIdsAreTakenAsTheyAre) {
  const Engine engine = Open({});
  Result<Tokens> tokens = engine.Tokenize("good morning");
  ASSERT_TRUE(tokens.ok());
  EXPECT_THAT(tokens.value().texts, ElementsAre("[CLS]", "good", "morning", "[SEP]"));
  const size_t offsets[] = {0, tokens.value().ids.size()};
  Result<Embeddings> embedded = engine.EmbedTokens(tokens.value().ids, offsets);
  ASSERT_TRUE(embedded.ok());
  EXPECT_EQ(embedded.value().values, Vector(engine, "good morning"));
}

TEST(Engine, TokenIdsOutOfRangeAreRefused) {
  const Engine engine = Open({});
  const size_t rows = engine.info().vocabulary;
  const std::vector<uint32_t> ids = {2, 5, static_cast<uint32_t>(rows)};
  const std::vector<size_t> offsets = {0, 1, 3};
  Result<Embeddings> refused = engine.EmbedTokens(ids, offsets);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(), "text 1: token id " + std::to_string(rows) +
                                           ", expected less than " + std::to_string(rows));
  const std::vector<size_t> empty_one = {0, 0, 3};
  EXPECT_EQ(engine.EmbedTokens(ids, empty_one).error().message(),
            "text 0: 0 token ids, expected 1 to 64");
  const std::vector<size_t> falling = {0, 2, 1, 3};
  EXPECT_EQ(engine.EmbedTokens(ids, falling).error().code(), ErrorCode::kInvalidArgument);
  const std::vector<size_t> short_of_end = {0, 2};
  EXPECT_EQ(engine.EmbedTokens(ids, short_of_end).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Engine, ThreadsShareOneEngine) {
  const Engine engine = Open({}, {.threads = 2});
  const std::vector<float> good = Vector(engine, "good morning");
  const std::vector<float> rain = Vector(engine, "rain bow");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 50; ++i) {
        const bool even = (i + t) % 2 == 0;
        if (Vector(engine, even ? "good morning" : "rain bow") != (even ? good : rain)) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Engine, OpeningWhatIsNotADirectorySaysSo) {
  EXPECT_EQ(Engine::Open("/nonexistent/model").error().message(),
            "/nonexistent/model: no such model directory");
  EXPECT_EQ(Engine::Open("/dev/null").error().message(),
            "/dev/null: a file, expected the directory that holds the model");
}

TEST(Engine, AnUnknownPoolingListsTheKnownOnes) {
  Result<Engine> refused = Engine::Open(TinyModel{}.Write(), {.pooling = "average"});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("average"), HasSubstr("weightedmean")));
}

TEST(Engine, InfoTellsWhatTheModelIs) {
  TinyModel model;
  model.prompts = {{"query", "query: "}};
  const Engine engine = Open(model, {.threads = 1});
  const EngineInfo& info = engine.info();
  EXPECT_EQ(info.family, "encoder");
  EXPECT_EQ(info.layers, 2u);
  EXPECT_EQ(info.hidden, 32u);
  EXPECT_EQ(info.dimensions, 32u);
  EXPECT_EQ(info.pooling, "mean");
  EXPECT_TRUE(info.normalizes);
  EXPECT_EQ(info.position_limit, 64u);
  EXPECT_EQ(info.weights_dtype, "F32");
  EXPECT_EQ(info.arithmetic, "cpu-f32");
  EXPECT_EQ(info.prompts.at("query"), "query: ");
  EXPECT_EQ(info.threads, 1u);
}

std::string Fingerprint(const TinyModel& model, const EngineOptions& options = {}) {
  Result<std::string> print = Open(model, options).Fingerprint();
  EXPECT_TRUE(print.ok()) << print.error().message();
  return std::move(print).value();
}

TEST(Fingerprint, DoesNotDependOnHowTheFilesAreLaidOut) {
  const std::string print = Fingerprint({});
  EXPECT_EQ(print.size(), 64u);
  EXPECT_EQ(print.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(Fingerprint({.dtype = DType::kBF16}), print);
  EXPECT_EQ(Fingerprint({.prefix = "bert.", .gamma_beta = true}), print);
  EXPECT_EQ(Fingerprint({.unused_tensors = true, .shards = 2}), print);
  EXPECT_EQ(Fingerprint({.vocab_txt = false, .tokenizer_json = true}), print);
}

TEST(Fingerprint, DependsOnWhatDecidesAVector) {
  const std::string print = Fingerprint({});
  EXPECT_NE(Fingerprint({.seed = 2}), print);
  EXPECT_NE(Fingerprint({.lowercase = false}), print);
  EXPECT_NE(Fingerprint({.pooling = {Pooling::kCls}}), print);
  EXPECT_NE(Fingerprint({.max_sequence = 16}), print);
  EXPECT_NE(Fingerprint({}, {.max_length = 16}), print);
  EXPECT_EQ(Fingerprint({}, {.max_length = 16}), Fingerprint({.max_sequence = 16}));
  EXPECT_NE(Fingerprint({}, {.parse_special_tokens = false}), print);
  TinyModel one_value;
  one_value.edit = [](TestTensor& tensor) {
    if (tensor.name == "encoder.layer.1.output.dense.bias") tensor.values[3] += 0.001953125f;
  };
  EXPECT_NE(Fingerprint(one_value), print);
}

TEST(Engine, AVectorThatIsNotFiniteIsAnErrorThatNamesItsText) {
  TinyModel model;
  model.edit = [](TestTensor& tensor) {  // the word of one id only
    if (tensor.name == "embeddings.word_embeddings.weight") {
      tensor.values[7 * tensor.shape[1]] = NAN;
    }
  };
  const Result<Engine> engine = Engine::Open(model.Write());
  ASSERT_TRUE(engine.ok()) << engine.error().message();
  const std::vector<uint32_t> ids = {2, 5, 3, 2, 7, 3};
  EXPECT_TRUE(engine.value().EmbedTokens(std::span(ids).first(3), std::vector<size_t>{0, 3}).ok());
  const Result<Embeddings> both = engine.value().EmbedTokens(ids, std::vector<size_t>{0, 3, 6});
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().code(), ErrorCode::kInternal);
  EXPECT_THAT(both.error().message(), HasSubstr("text 1: the vector holds NaN or infinity"));
}

TEST(Engine, WeightsThatAreNotFiniteAreRefusedOnRequest) {
  TinyModel model;
  model.edit = [](TestTensor& tensor) {
    if (tensor.name == "encoder.layer.1.attention.self.key.weight") tensor.values[5] = NAN;
  };
  const std::filesystem::path directory = model.Write();
  EXPECT_TRUE(Engine::Open(directory).ok());
  Result<Engine> refused = Engine::Open(directory, {.check_weights = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(
      refused.error().message(),
      AllOf(HasSubstr("encoder.layer.1.attention.self.key.weight"), HasSubstr("element 5 is NaN")));
}

TEST(Engine, AGpuIsUsedOnlyWhereItIsAskedForByName) {
  for (const char* device : {"auto", "cpu"}) {
    const Engine engine = Open({}, {.device = device});
    EXPECT_EQ(engine.info().device, "cpu");
    EXPECT_EQ(engine.info().arithmetic, "cpu-f32");
  }
  EXPECT_EQ(Open({}).info().device, "cpu");
}

TEST(Engine, ADeviceThatIsAskedForAndAbsentIsAnError) {
  const TinyModel model;
  const Result<Engine> engine = Engine::Open(model.Write(), {.device = "cuda:99"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code(), ErrorCode::kDevice);
  EXPECT_THAT(engine.error().message(), HasSubstr("device 'cuda:99': no CUDA device"));
  const Result<Engine> unknown = Engine::Open(model.Write(), {.device = "tpu"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
}

TEST(Engine, AttributeTakesACallApart) {
  const Engine engine = Open({}, {.device = "cpu"});
  const Result<std::vector<QueryStages>> calls = engine.Attribute("rain", 3);
  ASSERT_TRUE(calls.ok()) << calls.error().message();
  ASSERT_EQ(calls.value().size(), 3u);
  for (const QueryStages& call : calls.value()) {
    EXPECT_GT(call.tokenize, 0);
    EXPECT_GT(call.forward, 0);
    EXPECT_EQ(call.copy_in + call.enqueue + call.wake + call.copy_out, 0);
  }
}

}  // namespace
}  // namespace sprat
