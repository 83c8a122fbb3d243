#include "model/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

// Worked out apart from this code, with Python's hashlib and struct, from the bytes that the
// contract draws: no fact at all; and one tensor "t" = [[1, 2], [-3, 0.5]].
constexpr std::string_view kTensor{
    "20446463edeb66935d64619e39a93cb3a259fd6fbb36b3074a9cbb61af13d5ce"};
constexpr std::string_view kEmpty{
    "5d9ad4244c586536b805e349fc67fa452d885c3eca4fbd67deabc284b8374850"};

TEST(FingerprintBuilder, HashesTheBytesOfTheContract) {
  EXPECT_EQ(FingerprintBuilder().Finish(), kEmpty);
  FingerprintBuilder facts;
  facts.Add("pooling", "mean");
  facts.AddNumber("layers", 6);
  EXPECT_EQ(facts.Finish(), "d040052c41046de8f4a57d92cc36f63b9f4f8b9515ca18f8c9baea1531389114");
}

// One file with a tensor `t` of shape (2, 2).
TensorFile OneTensor(const std::vector<float>& values, DType dtype) {
  const std::filesystem::path path = NewTestDirectory("sprat-print") / "t.safetensors";
  WriteTestFile(
      path, SafetensorsBytes({{.name = "t", .shape = {2, 2}, .values = values, .dtype = dtype}}));
  return TensorFile::OpenFile(path).value();
}

std::string PrintOfTensor(const std::vector<float>& values, DType dtype) {
  const TensorFile file = OneTensor(values, dtype);
  FingerprintBuilder builder;
  EXPECT_TRUE(builder.AddTensor("t", *file.Find("t"), file).ok());
  return builder.Finish();
}

TEST(FingerprintBuilder, HashesTensorsByValue) {
  EXPECT_EQ(PrintOfTensor({1.0f, 2.0f, -3.0f, 0.5f}, DType::kF32), kTensor);
  EXPECT_EQ(PrintOfTensor({1.0f, 2.0f, -3.0f, 0.5f}, DType::kF16), kTensor);
  EXPECT_EQ(PrintOfTensor({1.0f, 2.0f, -3.0f, 0.5f}, DType::kBF16), kTensor);
  EXPECT_NE(PrintOfTensor({1.0f, 2.0f, -3.0f, 0.5000001f}, DType::kF32), kTensor);
}

TEST(FingerprintBuilder, RefusesTensorsThatAreNotWeights) {
  const TensorFile file = OneTensor({1, 2, 3, 4}, DType::kI64);
  FingerprintBuilder builder;
  Result<void> added = builder.AddTensor("t", *file.Find("t"), file);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().message(),
            "tensor 't': dtype I64 is not supported for weights; supported: F32, F16, BF16");
}

// A tensor of more than one chunk, its length no multiple of the chunk.
TEST(FingerprintBuilder, ReadsLongTensorsInPieces) {
  std::vector<float> values(700001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
  std::vector<std::string> prints;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::filesystem::path path = NewTestDirectory("sprat-print") / "t.safetensors";
    WriteTestFile(path,
                  SafetensorsBytes(
                      {{.name = "t", .shape = {values.size()}, .values = values, .dtype = dtype}}));
    const TensorFile file = TensorFile::OpenFile(path).value();
    FingerprintBuilder builder;
    ASSERT_TRUE(builder.AddTensor("t", *file.Find("t"), file).ok());
    prints.push_back(builder.Finish());
  }
  EXPECT_EQ(prints[0], "f8fb222d0fd15817f78e4ca97c7567937b6d138a5597969f51e78513a6eea0ab");
  EXPECT_EQ(prints[1], prints[0]);
}

// The fingerprint of a written directory, its tensors found by their canonical names.
std::string PrintOf(const TinyModel& model, const SentenceConfig& sentence,
                    std::string_view behaviour = "tokenizer", bool reversed = false) {
  const std::filesystem::path directory = model.Write();
  const TensorFile file = TensorFile::OpenDirectory(directory).value();
  std::vector<UsedTensor> used;
  TinyModel only_used = model;
  only_used.unused_tensors = false;
  for (TestTensor& tensor : only_used.Tensors()) {
    std::string stored = model.prefix + tensor.name;
    if (model.gamma_beta && stored.ends_with("LayerNorm.weight")) {
      stored.replace(stored.size() - 6, 6, "gamma");
    }
    if (model.gamma_beta && stored.ends_with("LayerNorm.bias")) {
      stored.replace(stored.size() - 4, 4, "beta");
    }
    EXPECT_NE(file.Find(stored), nullptr) << stored;
    used.push_back({.name = tensor.name, .tensor = file.Find(stored)});
  }
  if (reversed) std::reverse(used.begin(), used.end());
  return EncoderFingerprint(model.config, sentence, behaviour, used, file).value();
}

SentenceConfig Sentence() {
  SentenceConfig sentence;
  sentence.max_sequence = 64;
  return sentence;
}

TEST(EncoderFingerprint, IsTheSameHoweverTheSameModelIsStored) {
  const SentenceConfig sentence = Sentence();
  const std::string print = PrintOf(TinyModel{}, sentence);
  EXPECT_THAT(print, testing::MatchesRegex("[0-9a-f]{64}"));
  TinyModel other;
  other.dtype = DType::kF16;
  EXPECT_EQ(PrintOf(other, sentence), print);
  other.dtype = DType::kBF16;
  EXPECT_EQ(PrintOf(other, sentence), print);
  other = TinyModel{};
  other.shards = 3;
  EXPECT_EQ(PrintOf(other, sentence), print);
  other = TinyModel{};
  other.prefix = "bert.";
  other.gamma_beta = true;
  EXPECT_EQ(PrintOf(other, sentence), print);
  other = TinyModel{};
  other.unused_tensors = true;
  EXPECT_EQ(PrintOf(other, sentence), print);
  EXPECT_EQ(PrintOf(TinyModel{}, sentence, "tokenizer", true), print);
}

TEST(EncoderFingerprint, ChangesWithEverythingThatChangesAVector) {
  const SentenceConfig sentence = Sentence();
  std::vector<std::string> prints = {PrintOf(TinyModel{}, sentence)};
  prints.push_back(PrintOf(TinyModel{}, sentence, "another tokenizer"));

  TinyModel model;
  model.seed = 2;
  prints.push_back(PrintOf(model, sentence));
  model = TinyModel{};
  model.edit = [](TestTensor& tensor) {
    if (tensor.name == "encoder.layer.1.output.dense.bias") tensor.values.back() += 0x1p-20f;
  };
  prints.push_back(PrintOf(model, sentence));
  model = TinyModel{};
  model.config.heads = 8;
  prints.push_back(PrintOf(model, sentence));
  model.config = TinyModel{}.config;
  model.config.layer_norm_eps = 1e-5f;
  prints.push_back(PrintOf(model, sentence));
  model.config = TinyModel{}.config;
  model.config.activation = Activation::kRelu;
  prints.push_back(PrintOf(model, sentence));

  SentenceConfig changed = sentence;
  changed.pooling = Pooling::kCls;
  prints.push_back(PrintOf(TinyModel{}, changed));
  changed = sentence;
  changed.normalize = true;
  prints.push_back(PrintOf(TinyModel{}, changed));
  changed = sentence;
  changed.max_sequence = 63;
  prints.push_back(PrintOf(TinyModel{}, changed));
  changed = sentence;
  changed.prompts = {{"query", "query: "}};
  prints.push_back(PrintOf(TinyModel{}, changed));
  changed.default_prompt_name = "query";
  prints.push_back(PrintOf(TinyModel{}, changed));
  changed.prompts = {{"query", "query:"}};
  prints.push_back(PrintOf(TinyModel{}, changed));

  std::sort(prints.begin(), prints.end());
  EXPECT_EQ(std::adjacent_find(prints.begin(), prints.end()), prints.end());
}

TEST(EncoderFingerprint, DoesNotChangeWithWhatChangesNoVector) {
  SentenceConfig sentence = Sentence();
  const std::string print = PrintOf(TinyModel{}, sentence);
  sentence.prompts = {{"query", ""}, {"document", ""}};
  sentence.default_prompt_name = "document";
  sentence.warnings = {"a file is missing"};
  EXPECT_EQ(PrintOf(TinyModel{}, sentence), print);
}

}  // namespace
}  // namespace sprat
