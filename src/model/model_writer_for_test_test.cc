#include "model/model_writer_for_test.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/mapped_file.h"

namespace sprat {
namespace {

std::string Content(const std::filesystem::path& path) { return ReadFile(path, 1 << 20).value(); }

TEST(SafetensorsBytes, DrawsTheFormatByteByByte) {
  const std::string bytes = SafetensorsBytes(
      {{.name = "a", .shape = {2}, .values = {1.0f, -2.0f}, .dtype = DType::kF32}});
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )";
  ASSERT_EQ(header.size(), 56u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x38\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8, 56), header);
  EXPECT_EQ(bytes.substr(64), std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
}

TEST(SafetensorsBytes, StoresHalvesRoundedToNearestEven) {
  // 2049 lies between the halves 2048 and 2050; 2^-24 is the smallest subnormal, and 1.5 * 2^-24
  // lies between it and 2^-23.
  const std::vector<float> values = {1.0f,     -0.0f,    2049.0f,    2051.0f,
                                     65504.0f, 0x1p-24f, 0x1.8p-24f, 65520.0f};
  const std::string halves =
      SafetensorsBytes({{.name = "a", .shape = {8}, .values = values, .dtype = DType::kF16}});
  EXPECT_EQ(halves.substr(halves.size() - 16),
            std::string("\x00\x3c\x00\x80\x00\x68\x02\x68\xff\x7b\x01\x00\x02\x00\x00\x7c", 16));
  const std::string bfloats = SafetensorsBytes(
      {{.name = "a", .shape = {3}, .values = {1.0f, 257.0f, 259.0f}, .dtype = DType::kBF16}});
  EXPECT_EQ(bfloats.substr(bfloats.size() - 6), std::string("\x80\x3f\x80\x43\x82\x43", 6));
}

TEST(TinyModel, TheSameFieldsGiveTheSameFiles) {
  const std::filesystem::path first = TinyModel{}.Write();
  const std::filesystem::path second = TinyModel{}.Write();
  EXPECT_NE(first, second);
  EXPECT_EQ(Content(first / "model.safetensors"), Content(second / "model.safetensors"));
  TinyModel other;
  other.seed = 2;
  EXPECT_NE(Content(first / "model.safetensors"), Content(other.Write() / "model.safetensors"));
}

TEST(TinyModel, WeightsAreTheSameValuesInEveryType) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    TinyModel model;
    model.dtype = dtype;
    Result<TensorFile> file = TensorFile::OpenDirectory(model.Write());
    ASSERT_TRUE(file.ok()) << file.error().message();
    for (const TestTensor& tensor : model.Tensors()) {
      const Tensor* stored = file.value().Find(tensor.name);
      ASSERT_NE(stored, nullptr) << tensor.name;
      EXPECT_EQ(stored->dtype, dtype);
      EXPECT_EQ(stored->shape, tensor.shape);
      std::vector<float> values(tensor.values.size());
      ASSERT_TRUE(CopyAsF32(*stored, values).ok());
      EXPECT_EQ(values, tensor.values) << tensor.name;
    }
  }
}

TEST(TinyModel, WeightsAreNeitherConstantNorLarge) {
  for (const TestTensor& tensor : TinyModel{}.Tensors()) {
    double sum_of_squares = 0.0;
    const double center = tensor.name.ends_with("LayerNorm.weight") ? 1.0 : 0.0;
    for (const float value : tensor.values) sum_of_squares += (value - center) * (value - center);
    // Uniform on [-127, 127] * 2^-9: the root mean square is 127 / sqrt(3) * 2^-9 = 0.143.
    EXPECT_NEAR(std::sqrt(sum_of_squares / static_cast<double>(tensor.values.size())), 0.143, 0.05)
        << tensor.name;
  }
}

TEST(TinyModel, WritesOldNamesPrefixesShardsAndUnusedTensors) {
  TinyModel model;
  model.prefix = "bert.";
  model.gamma_beta = true;
  model.unused_tensors = true;
  model.shards = 3;
  const std::filesystem::path directory = model.Write();
  EXPECT_FALSE(std::filesystem::exists(directory / "model.safetensors"));
  Result<TensorFile> file = TensorFile::OpenDirectory(directory);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_NE(file.value().Find("bert.embeddings.LayerNorm.gamma"), nullptr);
  EXPECT_NE(file.value().Find("bert.encoder.layer.1.output.LayerNorm.beta"), nullptr);
  EXPECT_NE(file.value().Find("bert.pooler.dense.weight"), nullptr);
  const Tensor* positions = file.value().Find("bert.embeddings.position_ids");
  ASSERT_NE(positions, nullptr);
  EXPECT_EQ(positions->dtype, DType::kI64);
}

TEST(TinyModel, EditSeesCanonicalNames) {
  TinyModel model;
  model.prefix = "bert.";
  model.edit = [](TestTensor& tensor) {
    if (tensor.name == "embeddings.LayerNorm.bias") tensor.values[0] = 42.0f;
  };
  Result<TensorFile> file = TensorFile::OpenDirectory(model.Write());
  ASSERT_TRUE(file.ok());
  const Tensor* bias = file.value().Find("bert.embeddings.LayerNorm.bias");
  ASSERT_NE(bias, nullptr);
  std::vector<float> values(bias->elements());
  ASSERT_TRUE(CopyAsF32(*bias, values).ok());
  EXPECT_EQ(values[0], 42.0f);
}

TEST(TinyModel, TheConfigurationSurvivesWritingAndReading) {
  TinyModel model;
  model.pooling = {Pooling::kCls};
  model.max_sequence = 48;
  model.prompts = {{"query", "query: "}};
  model.default_prompt_name = "query";
  const std::filesystem::path directory = model.Write();
  Result<EncoderConfig> encoder = ReadEncoderConfig(directory);
  ASSERT_TRUE(encoder.ok()) << encoder.error().message();
  EXPECT_EQ(encoder.value().vocabulary, TinyVocabulary().size());
  EXPECT_EQ(encoder.value().layer_norm_eps, 1e-12f);
  Result<SentenceConfig> sentence = ReadSentenceConfig(directory, encoder.value());
  ASSERT_TRUE(sentence.ok()) << sentence.error().message();
  EXPECT_EQ(sentence.value().pooling, Pooling::kCls);
  EXPECT_TRUE(sentence.value().normalize);
  EXPECT_EQ(sentence.value().max_sequence, 48u);
  EXPECT_EQ(sentence.value().prompts.at("query"), "query: ");
  EXPECT_EQ(sentence.value().default_prompt_name, "query");
  EXPECT_TRUE(sentence.value().warnings.empty());
}

TEST(NewTestDirectory, IsNewAndEmpty) {
  const std::filesystem::path directory = NewTestDirectory("sprat-empty");
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  EXPECT_NE(directory, NewTestDirectory("sprat-empty"));
}

}  // namespace
}  // namespace sprat
