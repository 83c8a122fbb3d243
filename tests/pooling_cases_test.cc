// Faults met in other engines, of the kind "pooling", as tests named after their reports.
#include <gmock/gmock.h>

#include "engine_for_test.h"
#include "plain_model_for_test.h"

namespace sprat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The first four values of the vector of "good morning", which repeat; see PlainModel.
std::vector<float> PlainVector(Pooling pooling, bool normalize) {
  TinyModel model = PlainModel();
  model.pooling = {pooling};
  const std::vector<float> vector =
      VectorOf(OpenOrDie(model), "good morning", {.normalize = normalize});
  EXPECT_EQ(vector.size(), 32u);
  for (size_t i = 0; i < vector.size(); ++i) EXPECT_NEAR(vector[i], vector[i % 4], 1e-6) << i;
  return {vector.begin(), vector.begin() + 4};
}

void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
}

TEST(B29, ClsAndMeanAreWhatTheirNamesSay) {
  ExpectNear(PlainVector(Pooling::kCls, false), {1.0f, -1.0f, 1.0f, -1.0f});
  // ([CLS] + good + morning + [SEP]) / 4
  ExpectNear(PlainVector(Pooling::kMean, false), {0.5f, -0.5f, 0.0f, 0.0f});
  // The norm of eight times these four values: sqrt(8 * 4) and sqrt(8 * 0.5).
  ExpectNear(PlainVector(Pooling::kCls, true), {0.1767767f, -0.1767767f, 0.1767767f, -0.1767767f});
  ExpectNear(PlainVector(Pooling::kMean, true), {0.25f, -0.25f, 0.0f, 0.0f});
}

TEST(B29, TheOtherModesAreTheReferences) {
  ExpectNear(PlainVector(Pooling::kMax, false), {1.0f, 1.0f, 1.0f, 1.0f});
  // The sum over sqrt(4).
  ExpectNear(PlainVector(Pooling::kMeanSqrtLen, false), {1.0f, -1.0f, 0.0f, 0.0f});
  // (1 [CLS] + 2 good + 3 morning + 4 [SEP]) / 10
  ExpectNear(PlainVector(Pooling::kWeightedMean, false), {0.2f, -0.6f, 0.0f, 0.4f});
  ExpectNear(PlainVector(Pooling::kLastToken, false), {-1.0f, -1.0f, 1.0f, 1.0f});
}

TEST(B29, TheOptionReplacesWhatTheFilesSay) {
  TinyModel model = PlainModel();
  const std::filesystem::path directory = model.Write();
  const Engine mean = OpenOrDie(directory);
  const Engine cls = OpenOrDie(directory, {.pooling = "cls"});
  EXPECT_EQ(mean.info().pooling, "mean");
  EXPECT_EQ(cls.info().pooling, "cls");
  EXPECT_NEAR(VectorOf(mean, "good morning")[2], 0.0, 1e-6);
  EXPECT_NEAR(VectorOf(cls, "good morning")[2], 0.1767767, 1e-6);
  Result<Engine> unknown = Engine::Open(directory, {.pooling = "sum"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message(), HasSubstr("sum"));
}

TEST(B29, TwoModesAtOnceAreRefused) {
  TinyModel model;
  model.pooling = {Pooling::kCls, Pooling::kMean};
  EXPECT_EQ(OpenFault(model.Write(), ErrorCode::kUnsupported),
            "DIR/1_Pooling/config.json: pooling_mode_mean_tokens 'true' is not supported; "
            "supported: one mode at a time, and pooling_mode_cls_token is true too");
}

TEST(B31, AMissingNormalizeFolderIsNoFault) {
  const std::filesystem::path directory = TinyModel{}.Write();
  ASSERT_FALSE(std::filesystem::exists(directory / "2_Normalize"));
  const Engine engine = OpenOrDie(directory);
  EXPECT_TRUE(engine.info().normalizes);
  EXPECT_TRUE(engine.info().warnings.empty());
  EXPECT_NEAR(Norm(VectorOf(engine, "good morning")), 1.0, 1e-6);
}

TEST(B31, AMissingPoolingFolderIs) {
  TinyModel model;
  model.pooling_folder = false;
  EXPECT_EQ(OpenFault(model.Write(), ErrorCode::kNotFound),
            "DIR/1_Pooling/config.json: no such file; modules.json lists this Pooling module");
}

TEST(B33, NormalisedUnlessToldOtherwise) {
  for (const bool listed : {true, false}) {
    TinyModel model;
    model.normalize = listed;
    const Engine engine = OpenOrDie(model);
    EXPECT_EQ(engine.info().normalizes, listed);
    const std::vector<float> absent = VectorOf(engine, "good morning");
    const std::vector<float> yes = VectorOf(engine, "good morning", {.normalize = true});
    const std::vector<float> raw = VectorOf(engine, "good morning", {.normalize = false});
    EXPECT_NEAR(Norm(absent), 1.0, 1e-6);
    EXPECT_TRUE(SameBits(absent, yes));
    EXPECT_GT(std::abs(Norm(raw) - 1.0), 0.1);
    for (size_t i = 0; i < raw.size(); ++i) EXPECT_NEAR(raw[i] / Norm(raw), yes[i], 1e-6) << i;
  }
}

TinyModel WithPrompts() {
  TinyModel model;
  model.vocabulary = BertVocabulary();
  model.prompts = {{"query", "query: "}, {"passage", "passage: "}};
  return model;
}

TEST(B35, APromptIsTextPrependedAsWritten) {
  const Engine engine = OpenOrDie(WithPrompts());
  Result<Tokens> tokens = engine.Tokenize("good morning", {.prompt_name = "query"});
  ASSERT_TRUE(tokens.ok());
  EXPECT_THAT(tokens.value().ids, ElementsAre(101, 23032, 1024, 2204, 2851, 102));
  const Embeddings query = EmbedOrDie(engine, {"good morning"}, {.prompt_name = "query"});
  EXPECT_THAT(query.tokens, ElementsAre(6));
  const Embeddings raw = EmbedOrDie(engine, {"query: good morning", "good morning"});
  EXPECT_THAT(raw.tokens, ElementsAre(6, 4));
  EXPECT_TRUE(SameBits(query.values, raw.Row(0)));
  EXPECT_FALSE(SameBits(query.values, raw.Row(1)));
  EXPECT_FALSE(
      SameBits(query.values, VectorOf(engine, "good morning", {.prompt_name = "passage"})));
  EXPECT_TRUE(SameBits(query.values, VectorOf(engine, "good morning", {.prompt = "query: "})));
}

TEST(B35, AnUnknownPromptIsRefusedByName) {
  const Engine engine = OpenOrDie(WithPrompts());
  for (int i = 0; i < kRepeats; ++i) {
    Result<Embeddings> unknown = engine.EmbedOne("good", {.prompt_name = "document"});
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(unknown.error().message(), HasSubstr("'document'"));
    EXPECT_THAT(unknown.error().message(), HasSubstr("'passage', 'query'"));
  }
}

TEST(B35, TheDefaultPromptIsAppliedOnceWhenNoneIsGiven) {
  TinyModel model = WithPrompts();
  const Engine none = OpenOrDie(model);
  model.default_prompt_name = "query";
  const Engine query = OpenOrDie(model);
  EXPECT_EQ(query.info().default_prompt_name, "query");
  const Embeddings rows = EmbedOrDie(query, {"good morning"});
  EXPECT_THAT(rows.tokens, ElementsAre(6));
  EXPECT_TRUE(SameBits(rows.values, VectorOf(none, "query: good morning")));
  EXPECT_TRUE(SameBits(VectorOf(query, "good morning", {.prompt_name = "query"}), rows.values));
  EXPECT_TRUE(SameBits(VectorOf(query, "good morning", {.prompt_name = "passage"}),
                       VectorOf(none, "passage: good morning")));
  EXPECT_TRUE(
      SameBits(VectorOf(query, "good morning", {.prompt = ""}), VectorOf(none, "good morning")));
}

}  // namespace
}  // namespace sprat
