// A real static model (Unigram tokenizer, I8 table, weights, mapping) from text to vector, against
// vectors of model2vec 0.10.0 (testdata/golden).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine_for_test.h"
#include "golden_for_test.h"

namespace sprat {
namespace {

class StaticGolden : public testing::Test {
 protected:
  void SetUp() override {
    const char* models = std::getenv("SPRAT_TEST_MODELS");
    directory_ = std::filesystem::path(models == nullptr ? "" : models) / "tokenlearn-static";
    if (!std::filesystem::exists(directory_)) {
      GTEST_SKIP() << "no real model: SPRAT_TEST_MODELS should name the directory that holds "
                      "tokenlearn-static (tools/fetch_model.py)";
    }
    golden_ = ReadGolden("static_tokenlearn.jsonl");
    ASSERT_EQ(golden_.size(), 285u);
  }

  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const GoldenText& golden : golden_) texts.push_back(golden.text);
    return texts;
  }

  std::filesystem::path directory_;
  std::vector<GoldenText> golden_;
};

TEST_F(StaticGolden, IdsAreTheReferences) {
  const Engine engine = OpenOrDie(directory_);
  for (const GoldenText& golden : golden_) {
    Result<Tokens> tokens = engine.Tokenize(golden.text);
    ASSERT_TRUE(tokens.ok()) << tokens.error().message();
    EXPECT_EQ(tokens.value().ids, golden.ids) << golden.text;
  }
}

TEST_F(StaticGolden, VectorsAreTheReferencesAndZeroWhereItsAre) {
  const Engine engine = OpenOrDie(directory_);
  const Embeddings rows = EmbedOrDie(engine, Texts());
  double largest_difference = 0.0;
  size_t zeros = 0;
  for (size_t i = 0; i < golden_.size(); ++i) {
    ASSERT_EQ(golden_[i].vector.size(), rows.dimensions);
    ASSERT_TRUE(AllFinite(rows.Row(i))) << golden_[i].text;
    EXPECT_EQ(rows.tokens[i], golden_[i].ids.size()) << golden_[i].text;
    if (golden_[i].ids.empty()) {
      ++zeros;
      EXPECT_EQ(Norm(rows.Row(i)), 0.0) << golden_[i].text;
    }
    for (size_t d = 0; d < rows.dimensions; ++d) {
      largest_difference =
          std::max(largest_difference, std::abs(static_cast<double>(rows.Row(i)[d]) -
                                                static_cast<double>(golden_[i].vector[d])));
    }
  }
  std::printf("largest difference %.3g, %zu zero vectors\n", largest_difference, zeros);
  EXPECT_LE(largest_difference, 1e-5);
  EXPECT_GT(zeros, 0u);
}

TEST_F(StaticGolden, SameBitsAloneAndInAnyBatch) {
  const Engine engine = OpenOrDie(directory_, {.threads = 2});
  std::vector<std::string> texts;
  for (int copy = 0; copy < 8; ++copy) {
    for (const std::string& text : Texts()) texts.push_back(text);
  }
  const Embeddings rows = EmbedOrDie(engine, texts);
  for (size_t i = 0; i < texts.size(); i += 5) {
    EXPECT_TRUE(SameBits(rows.Row(i), VectorOf(engine, texts[i]))) << texts[i];
  }
}

}  // namespace
}  // namespace sprat
