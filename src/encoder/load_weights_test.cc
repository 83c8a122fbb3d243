#include "encoder/load_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kIds[] = {2, 40, 41, 7, 3};

Result<std::vector<float>> VectorOf(const std::filesystem::path& directory) {
  const TensorFile file = TensorFile::OpenDirectory(directory).value();
  const EncoderConfig config = ReadEncoderConfig(directory).value();
  Result<std::unique_ptr<Encoder>> encoder =
      Encoder::Create(config, {.threads = 1}, SourceOf(file));
  if (!encoder.ok()) return std::move(encoder.error());
  TokenBatch batch;
  batch.Append(kIds);
  std::vector<float> out(config.hidden);
  EXPECT_TRUE(encoder.value()->Embed(batch, {}, {out.data(), 1, out.size()}).ok());
  return out;
}

std::string ErrorOf(const TinyModel& model) {
  const Result<std::vector<float>> vector = VectorOf(model.Write());
  return vector.ok() ? "" : vector.error().message();
}

// Cases B46 and B48 and the storage types: names, shards and types of equal values do not matter.
TEST(LoadWeights, EveryWayToStoreTheSameValuesGivesTheSameBits) {
  const std::vector<float> expected = VectorOf(TinyModel().Write()).value();
  EXPECT_NEAR(expected[0] * expected[0], 1.0 / 32, 1.0 / 8);  // a vector of norm 1, not zeros
  std::vector<TinyModel> variants(7);
  variants[0].prefix = "bert.";
  variants[1].prefix = "model.";
  variants[2].prefix = "0.auto_model.";
  variants[3].gamma_beta = true;
  variants[4].dtype = DType::kF16;
  variants[5].dtype = DType::kBF16;
  variants[6].shards = 3;
  for (TinyModel& model : variants) {
    model.unused_tensors = true;
    EXPECT_EQ(VectorOf(model.Write()).value(), expected)
        << model.prefix << Name(model.dtype) << model.shards;
  }
}

TEST(LoadWeights, AMissingTensorIsNamedWithSomeThatExist) {
  TinyModel model;
  model.prefix = "roberta.";
  EXPECT_THAT(ErrorOf(model),
              AllOf(HasSubstr("model.safetensors: no tensor "
                              "'embeddings.word_embeddings.weight'"),
                    HasSubstr("'bert.'"), HasSubstr("'roberta.embeddings.LayerNorm.bias'"),
                    HasSubstr("more")));
}

TEST(LoadWeights, ALayerTooFewIsNamed) {
  TinyModel model;
  model.config_json["num_hidden_layers"] = "3";
  EXPECT_THAT(ErrorOf(model), HasSubstr("'encoder.layer.2.attention.self.query.weight'"));
}

TEST(LoadWeights, AWrongShapeIsNamedWithTheExpectedOne) {
  TinyModel model;
  model.config_json["intermediate_size"] = "65";
  EXPECT_THAT(
      ErrorOf(model),
      AllOf(HasSubstr("model.safetensors: tensor 'encoder.layer.0.intermediate.dense.weight"),
            HasSubstr("has shape (64, 32), expected (65, 32)")));
}

// Case B58: ids beyond the table must not be possible.
TEST(LoadWeights, AVocabularyUnlikeTheTableIsRefused) {
  TinyModel model;
  model.config_json["vocab_size"] = "5000";
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("'embeddings.word_embeddings.weight' has shape ("),
                                    HasSubstr("expected (5000, 32)")));
}

TEST(LoadWeights, AnIntegerTensorIsUnsupported) {
  TinyModel model;
  model.edit = [](TestTensor& tensor) {
    if (tensor.name == "encoder.layer.1.output.dense.bias") tensor.dtype = DType::kI64;
  };
  EXPECT_THAT(ErrorOf(model),
              AllOf(HasSubstr("'encoder.layer.1.output.dense.bias'"), HasSubstr("I64")));
}

// Case B42, through the whole model: eps is read and used.
TEST(LoadWeights, LayerNormEpsChangesTheVectorOfASmallModel) {
  TinyModel model;
  model.edit = [](TestTensor& tensor) {
    if (!tensor.name.starts_with("embeddings.") ||
        tensor.name.find("LayerNorm") != std::string::npos)
      return;
    for (float& value : tensor.values) value *= 0x1p-8f;
  };
  model.config.layer_norm_eps = 1e-12f;
  const std::vector<float> small_eps = VectorOf(model.Write()).value();
  model.config.layer_norm_eps = 1e-5f;
  const std::vector<float> large_eps = VectorOf(model.Write()).value();
  double difference = 0;
  for (size_t c = 0; c < small_eps.size(); ++c) {
    difference = std::max(difference, std::fabs(double{small_eps[c]} - large_eps[c]));
  }
  EXPECT_GT(difference, 1e-3);
}

}  // namespace
}  // namespace sprat
