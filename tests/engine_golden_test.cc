// The engine from text to vector with the real weights of all-MiniLM-L6-v2, against vectors of the
// reference implementation (testdata/golden).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

#include "engine_for_test.h"
#include "golden_for_test.h"

namespace sprat {
namespace {

// The ten texts other than `query` whose vectors have the largest cosines with its own.
std::vector<size_t> TopTen(const std::vector<std::span<const float>>& vectors, size_t query) {
  std::vector<size_t> order(vectors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(query));
  std::vector<double> cosines(vectors.size());
  for (const size_t i : order) cosines[i] = Cosine(vectors[i], vectors[query]);
  std::partial_sort(order.begin(), order.begin() + 10, order.end(),
                    [&](size_t a, size_t b) { return cosines[a] > cosines[b]; });
  order.resize(10);
  return order;
}

class Golden : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    golden_ = new std::vector<GoldenText>(ReadGolden("minilm.jsonl"));
  }
  static void TearDownTestSuite() { delete std::exchange(golden_, nullptr); }

  void SetUp() override {
    const char* directory = std::getenv("SPRAT_TEST_MODEL");
    if (directory == nullptr || !std::filesystem::exists(directory)) {
      GTEST_SKIP() << "no real model: SPRAT_TEST_MODEL should name the directory of "
                      "all-MiniLM-L6-v2 (tools/fetch_model.py)";
    }
    directory_ = directory;
    ASSERT_EQ(golden_->size(), 285u);
  }

  // All the texts; for the scalar table, which is made to be read, each twelfth.
  static std::vector<GoldenText> Sample(const Engine& engine) {
    if (engine.info().kernels != "scalar") return *golden_;
    std::vector<GoldenText> sample;
    for (size_t i = 0; i < golden_->size(); i += 12) sample.push_back((*golden_)[i]);
    return sample;
  }

  static std::vector<std::string> TextsOf(const std::vector<GoldenText>& golden) {
    std::vector<std::string> texts;
    for (const GoldenText& entry : golden) texts.push_back(entry.text);
    return texts;
  }

  static std::vector<GoldenText>* golden_;  // shared by the tests of this suite, which ends it
  std::filesystem::path directory_;
};

std::vector<GoldenText>* Golden::golden_ = nullptr;

TEST_F(Golden, IdsAreTheReferences) {
  const Engine engine = OpenOrDie(directory_);
  for (const GoldenText& golden : *golden_) {
    Result<Tokens> tokens = engine.Tokenize(golden.text);
    ASSERT_TRUE(tokens.ok()) << tokens.error().message();
    EXPECT_EQ(tokens.value().ids, golden.ids) << golden.text;
  }
}

TEST_F(Golden, VectorsAreTheReferences) {
  const Engine engine = OpenOrDie(directory_);
  const std::vector<GoldenText> sample = Sample(engine);
  const Embeddings rows = EmbedOrDie(engine, TextsOf(sample));
  double least_cosine = 1.0;
  double largest_difference = 0.0;
  std::vector<std::span<const float>> found, expected;
  for (size_t i = 0; i < sample.size(); ++i) {
    const GoldenText& golden = sample[i];
    ASSERT_EQ(golden.vector.size(), rows.dimensions);
    ASSERT_TRUE(AllFinite(rows.Row(i))) << golden.text;
    EXPECT_EQ(rows.tokens[i], golden.ids.size()) << golden.text;
    least_cosine = std::min(least_cosine, Cosine(rows.Row(i), golden.vector));
    for (size_t d = 0; d < rows.dimensions; ++d) {
      largest_difference = std::max(
          largest_difference, std::abs(static_cast<double>(rows.Row(i)[d]) - golden.vector[d]));
    }
    found.push_back(rows.Row(i));
    expected.push_back(golden.vector);
  }
  std::printf("%s: minimum cosine %.9f, largest difference %.3g\n", engine.info().kernels.c_str(),
              least_cosine, largest_difference);
  EXPECT_GE(least_cosine, 0.999999);
  EXPECT_LE(largest_difference, 2e-5);

  // The neighbours: each rank has a text as near, in the reference's vectors, as the reference's
  // own; texts whose cosines differ by less than 1e-6 may change places.
  for (size_t query = 0; query < found.size(); ++query) {
    const std::vector<size_t> ours = TopTen(found, query);
    const std::vector<size_t> theirs = TopTen(expected, query);
    for (size_t rank = 0; rank < ours.size(); ++rank) {
      EXPECT_NEAR(Cosine(expected[ours[rank]], expected[query]),
                  Cosine(expected[theirs[rank]], expected[query]), 1e-6)
          << "rank " << rank << " of " << sample[query].text;
    }
  }
}

// Published: the first values for "hello world" in fastembed's tests, to three decimals.
TEST_F(Golden, HelloWorld) {
  const std::vector<float> vector = VectorOf(OpenOrDie(directory_), "hello world");
  const std::vector<float> published = {-0.034478f, 0.03102f, 0.00673f, 0.02611f, -0.039362f};
  for (size_t i = 0; i < published.size(); ++i) EXPECT_NEAR(vector[i], published[i], 1e-3) << i;
}

// The same bits alone, in any batch, at any position, with any number of threads.
TEST_F(Golden, AVectorDependsOnItsTextAlone) {
  const Engine one_thread = OpenOrDie(directory_, {.threads = 1});
  std::vector<GoldenText> sample = *golden_;
  if (one_thread.info().kernels == "scalar") {
    std::erase_if(sample, [](const GoldenText& golden) { return golden.ids.size() > 8; });
  }
  const std::vector<std::string> texts = TextsOf(sample);
  std::vector<std::vector<float>> alone;
  for (const std::string& text : texts) alone.push_back(VectorOf(one_thread, text));
  for (const size_t threads : {1u, 2u, 4u}) {
    const Engine engine = OpenOrDie(directory_, {.threads = threads});
    std::vector<size_t> order(texts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (const uint64_t seed : {0u, 1u, 2u}) {
      if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
      std::vector<std::string> shuffled;
      for (const size_t i : order) shuffled.push_back(texts[i]);
      shuffled.resize(texts.size() - 7 * seed);  // other batch sizes too
      const Embeddings rows = EmbedOrDie(engine, shuffled);
      for (size_t i = 0; i < shuffled.size(); ++i) {
        EXPECT_TRUE(SameBits(rows.Row(i), alone[order[i]]))
            << "threads " << threads << ", seed " << seed << ": " << shuffled[i];
      }
    }
    for (size_t i = 0; i < texts.size(); i += 7) {
      EXPECT_TRUE(SameBits(VectorOf(engine, texts[i]), alone[i])) << "threads " << threads;
    }
  }
}

// Renaming, storage and unused tensors do not change the fingerprint of the published directory;
// TinyModel's tests vary what does.
TEST_F(Golden, TheFingerprintDoesNotDependOnTheTokenizersFile) {
  const std::filesystem::path copy = NewTestDirectory("sprat-golden");
  for (const char* name : {"config.json", "modules.json", "sentence_bert_config.json", "vocab.txt",
                           "tokenizer_config.json", "config_sentence_transformers.json"}) {
    std::filesystem::copy(directory_ / name, copy / name);
  }
  std::filesystem::copy(directory_ / "1_Pooling", copy / "1_Pooling");
  std::filesystem::create_symlink(directory_ / "model.safetensors", copy / "model.safetensors");
  Result<std::string> published = OpenOrDie(directory_).Fingerprint();
  Result<std::string> without = OpenOrDie(copy).Fingerprint();  // vocab.txt, no tokenizer.json
  ASSERT_TRUE(published.ok()) << published.error().message();
  ASSERT_TRUE(without.ok()) << without.error().message();
  EXPECT_EQ(published.value(), without.value());
  EXPECT_EQ(published.value().size(), 64u);
}

}  // namespace
}  // namespace sprat
