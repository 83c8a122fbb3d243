// The CPU twin against a reference in double precision: so the plan, the packing and the order of
// steps are right wherever there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "gpu/random_model_for_test.h"
#include "gpu/twin_for_test.h"

namespace sprat::gpu {
namespace {

using Rows = std::vector<std::vector<double>>;

// BERT straight from the paper, from the unpacked tensors, in double.
class Reference {
 public:
  explicit Reference(const RandomModel& model) : model_(model) {}

  std::vector<float> Embed(std::span<const uint32_t> ids) const {
    Rows x;
    for (size_t t = 0; t < ids.size(); ++t) {
      std::vector<double> row(kHidden);
      for (size_t c = 0; c < kHidden; ++c) {
        row[c] = Value("embeddings.word_embeddings.weight", ids[t] * kHidden + c) +
                 Value("embeddings.position_embeddings.weight", t * kHidden + c) +
                 Value("embeddings.token_type_embeddings.weight", c);
      }
      x.push_back(row);
    }
    Norm("embeddings.LayerNorm", x);
    for (uint32_t l = 0; l < model_.config.layers; ++l) {
      const std::string at = fmt::format("encoder.layer.{}.", l);
      Add(Linear(at + "attention.output.dense", Attend(at + "attention.self.", x)), x);
      Norm(at + "attention.output.LayerNorm", x);
      Rows inner = Linear(at + "intermediate.dense", x);
      for (auto& row : inner) {
        for (double& v : row) v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
      }
      Add(Linear(at + "output.dense", inner), x);
      Norm(at + "output.LayerNorm", x);
    }
    return MeanAndNormalise(x);
  }

 private:
  double Value(std::string_view name, size_t i) const {
    return static_cast<double>(model_.tensors.find(name)->second[i]);
  }

  Rows Linear(const std::string& name, const Rows& in) const {
    const std::vector<float>& weight = model_.tensors.find(name + ".weight")->second;
    const std::vector<float>& bias = model_.tensors.find(name + ".bias")->second;
    Rows out(in.size(), std::vector<double>(bias.size()));
    for (size_t t = 0; t < in.size(); ++t) {
      for (size_t n = 0; n < bias.size(); ++n) {
        double sum = static_cast<double>(bias[n]);
        for (size_t k = 0; k < in[t].size(); ++k) {
          sum += in[t][k] * static_cast<double>(weight[n * in[t].size() + k]);
        }
        out[t][n] = sum;
      }
    }
    return out;
  }

  static void Add(const Rows& y, Rows& x) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t c = 0; c < kHidden; ++c) x[t][c] += y[t][c];
    }
  }

  void Norm(const std::string& name, Rows& x) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / kHidden;
      for (const double v : row) variance += (v - mean) * (v - mean) / kHidden;
      for (size_t c = 0; c < kHidden; ++c) {
        row[c] = (row[c] - mean) / std::sqrt(variance + 1e-12) * Value(name + ".weight", c) +
                 Value(name + ".bias", c);
      }
    }
  }

  Rows Attend(const std::string& at, const Rows& x) const {
    const Rows q = Linear(at + "query", x), k = Linear(at + "key", x), v = Linear(at + "value", x);
    Rows out(x.size(), std::vector<double>(kHidden, 0.0));
    for (size_t head = 0; head < kHidden; head += kHead) {
      for (size_t i = 0; i < x.size(); ++i) {
        std::vector<double> weights(x.size());
        double total = 0;
        for (size_t j = 0; j < x.size(); ++j) {
          double score = 0;
          for (size_t d = head; d < head + kHead; ++d) score += q[i][d] * k[j][d];
          total += weights[j] = std::exp(score / std::sqrt(static_cast<double>(kHead)));
        }
        for (size_t j = 0; j < x.size(); ++j) {
          for (size_t d = head; d < head + kHead; ++d) out[i][d] += weights[j] / total * v[j][d];
        }
      }
    }
    return out;
  }

  static std::vector<float> MeanAndNormalise(const Rows& x) {
    std::vector<double> mean(kHidden, 0.0);
    double squares = 0;
    for (size_t c = 0; c < kHidden; ++c) {
      for (const auto& row : x) mean[c] += row[c] / static_cast<double>(x.size());
      squares += mean[c] * mean[c];
    }
    std::vector<float> out(kHidden);
    for (size_t c = 0; c < kHidden; ++c) out[c] = static_cast<float>(mean[c] / std::sqrt(squares));
    return out;
  }

  const RandomModel& model_;
};

class TwinTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new RandomModel(MakeRandomModel(2, 50, 1));
    packed_ = new ByteBuffer(std::move(PackWeights(model_->config, model_->Reader())).value());
  }
  static void TearDownTestSuite() {
    delete packed_;
    delete model_;
  }
  static Twin MakeTwin(Pooling pooling = Pooling::kMean) {
    return Twin(model_->config, pooling, {packed_->begin(), packed_->size_bytes()});
  }

  static RandomModel* model_;
  static ByteBuffer* packed_;
};
RandomModel* TwinTest::model_;
ByteBuffer* TwinTest::packed_;

constexpr ResultForm kWhole{.columns = kHidden, .normalize = true};

// The parity gate of the GPU paths: cosine >= 0.99999, largest difference <= 2e-3.
TEST_F(TwinTest, AgreesWithTheReferenceInDouble) {
  const TokenBatch batch = RandomBatch({1, 7, 70}, 50, 2);
  const std::vector<float> vectors = MakeTwin().Embed(batch, Path::kRow, kWhole);
  for (size_t i = 0; i < batch.sequences(); ++i) {
    const std::vector<float> expected = Reference(*model_).Embed(batch.Sequence(i));
    EXPECT_GE(Cosine(&vectors[i * kHidden], expected.data(), kHidden), 0.99999) << i;
    EXPECT_LE(LargestDifference(&vectors[i * kHidden], expected.data(), kHidden), 2e-3) << i;
  }
}

TEST_F(TwinTest, BothPathsHaveTheSameBits) {
  const TokenBatch batch = RandomBatch({3, 20}, 50, 3);
  Twin twin = MakeTwin();
  const std::vector<float> row = twin.Embed(batch, Path::kRow, kWhole);
  const std::vector<float> tile = twin.Embed(batch, Path::kTile, kWhole);
  EXPECT_EQ(std::memcmp(row.data(), tile.data(), row.size() * sizeof(float)), 0);
}

TEST_F(TwinTest, AQueryHasTheBitsOfARow) {
  const TokenBatch query = RandomBatch({13}, 50, 6);
  Twin twin = MakeTwin();
  const std::vector<float> row = twin.Embed(query, Path::kRow, kWhole);
  EXPECT_EQ(twin.Embed(query, Path::kQuery, kWhole), row);
}

TEST_F(TwinTest, ABatchDoesNotChangeARow) {
  const TokenBatch batch = RandomBatch({5, 2, 9}, 50, 4);
  const std::vector<float> together = MakeTwin().Embed(batch, Path::kTile, kWhole);
  for (size_t i = 0; i < batch.sequences(); ++i) {
    TokenBatch alone;
    alone.Append(batch.Sequence(i));
    const std::vector<float> vector = MakeTwin().Embed(alone, Path::kTile, kWhole);
    EXPECT_EQ(std::memcmp(vector.data(), &together[i * kHidden], kHidden * sizeof(float)), 0) << i;
  }
}

TEST_F(TwinTest, CutsBeforeItNormalises) {
  const TokenBatch batch = RandomBatch({6}, 50, 5);
  const std::vector<float> cut =
      MakeTwin().Embed(batch, Path::kRow, {.columns = 128, .normalize = true});
  double squares = 0;
  for (size_t c = 0; c < 128; ++c) squares += static_cast<double>(cut[c] * cut[c]);
  EXPECT_NEAR(squares, 1.0, 1e-6);
}

}  // namespace
}  // namespace sprat::gpu
