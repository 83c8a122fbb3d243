#include "static_model/static_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "model/model_writer_for_test.h"
#include "static_model/static_config.h"

namespace sprat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Bytes(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

// One tensor of a header written by hand: types that the encoder's test writer does not have.
struct RawTensor {
  std::string name, dtype, shape, bytes;
};

TensorFile Open(const std::vector<RawTensor>& tensors) {
  std::string header = "{", data;
  for (const RawTensor& t : tensors) {
    header += (data.empty() ? "\"" : ",\"") + t.name + "\":{\"dtype\":\"" + t.dtype +
              "\",\"shape\":" + t.shape + ",\"data_offsets\":[" + std::to_string(data.size()) +
              "," + std::to_string(data.size() + t.bytes.size()) + "]}";
    data += t.bytes;
  }
  const auto path = NewTestDirectory("static") / "model.safetensors";
  WriteTestFile(path, RawSafetensors(header + "}", data));
  Result<TensorFile> file = TensorFile::OpenFile(path);
  EXPECT_TRUE(file.ok()) << file.error().message();
  return std::move(file).value();
}

std::unique_ptr<StaticModel> Model(const std::vector<RawTensor>& tensors) {
  Result<StaticTables> tables = ReadStaticTables(Open(tensors));
  EXPECT_TRUE(tables.ok()) << tables.error().message();
  Result<std::unique_ptr<StaticModel>> model =
      StaticModel::Create(std::move(tables).value(), std::nullopt, 2);
  EXPECT_TRUE(model.ok()) << model.error().message();
  return std::move(model).value();
}

std::vector<float> Embed(StaticModel& model, std::vector<uint32_t> ids, bool normalize) {
  TokenBatch batch;
  batch.Append(ids);
  std::vector<float> out(model.dimensions(), -1.0f);
  Result<void> done = model.Embed(batch, {.normalize = normalize}, {out.data(), 1, out.size()});
  EXPECT_TRUE(done.ok()) << done.error().message();
  return out;
}

std::string RefusalOf(const std::vector<RawTensor>& tensors) {
  Result<StaticTables> tables = ReadStaticTables(Open(tensors));
  EXPECT_FALSE(tables.ok());
  return tables.ok() ? "" : tables.error().message();
}

const RawTensor kUnitRows{"embeddings", "F32", "[2,2]", Bytes(std::vector<float>{1, 0, 0, 1})};

TEST(B60, NothingLeftIsTheZeroVector) {
  const auto model = Model({kUnitRows});
  EXPECT_THAT(Embed(*model, {}, true), ElementsAre(0.0f, 0.0f));
  EXPECT_THAT(Embed(*model, {}, false), ElementsAre(0.0f, 0.0f));
}

TEST(B62, WeightsGoWithTheTokenRowsWithTheCluster) {
  const auto model = Model({kUnitRows,
                            {"mapping", "I64", "[2]", Bytes(std::vector<int64_t>{0, 1})},
                            {"weights", "F64", "[2]", Bytes(std::vector<double>{1, 2})}});
  EXPECT_THAT(Embed(*model, {0, 1}, false), ElementsAre(0.5f, 1.0f));
  EXPECT_THAT(Embed(*model, {0, 1}, true), ElementsAre(testing::FloatNear(0.4472136f, 1e-7f),
                                                       testing::FloatNear(0.8944272f, 1e-7f)));
}

TEST(B62, TwoTokensOfOneRowKeepTheirOwnWeights) {
  const auto model = Model({kUnitRows,
                            {"mapping", "I32", "[3]", Bytes(std::vector<int32_t>{1, 1, 0})},
                            {"weights", "F32", "[3]", Bytes(std::vector<float>{4, 8, 3})}});
  EXPECT_EQ(model->vocabulary_rows(), 3u);
  EXPECT_THAT(Embed(*model, {0}, false), ElementsAre(0.0f, 4.0f));
  EXPECT_THAT(Embed(*model, {1}, false), ElementsAre(0.0f, 8.0f));
  EXPECT_THAT(Embed(*model, {2}, false), ElementsAre(3.0f, 0.0f));
}

TEST(B64, Int8RowsAreIntegers) {
  const auto model =
      Model({{"embeddings", "I8", "[3,2]", Bytes(std::vector<int8_t>{127, 0, 0, -127, 64, 64})}});
  EXPECT_THAT(Embed(*model, {0}, true), ElementsAre(1.0f, 0.0f));
  EXPECT_THAT(Embed(*model, {1}, true), ElementsAre(0.0f, -1.0f));
  EXPECT_THAT(Embed(*model, {2}, true), ElementsAre(testing::FloatNear(0.7071068f, 1e-7f),
                                                    testing::FloatNear(0.7071068f, 1e-7f)));
}

TEST(StaticModel, AHalfPrecisionTableIsSummedInF32) {
  // 65504 + 65504 overflows binary16; 0x7bff is 65504.
  const auto model =
      Model({{"embedding.weight", "F16", "[1,1]", Bytes(std::vector<uint16_t>{0x7bff})}});
  EXPECT_THAT(Embed(*model, {0, 0}, false), ElementsAre(65504.0f));
}

TEST(StaticModel, SameBitsAloneAndInAnyBatch) {
  std::vector<float> table(50 * 19);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i * 2654435761u % 1000);
  const auto model = Model({{"0", "F32", "[50,19]", Bytes(table)}});
  TokenBatch batch;
  for (uint32_t i = 0; i < 2000; ++i) {  // more tokens than one thread takes alone
    std::vector<uint32_t> ids;
    for (uint32_t t = 0; t < i % 7; ++t) ids.push_back((i * 31 + t * 17) % 50);
    batch.Append(ids);
  }
  std::vector<float> all(batch.sequences() * 19);
  ASSERT_TRUE(model->Embed(batch, {}, {all.data(), batch.sequences(), 19}).ok());
  for (const size_t i : {0u, 1u, 6u, 999u, 1999u}) {
    const auto ids = batch.Sequence(i);
    const std::vector<float> alone = Embed(*model, {ids.begin(), ids.end()}, true);
    EXPECT_EQ(std::memcmp(alone.data(), all.data() + i * 19, 19 * sizeof(float)), 0) << i;
  }
}

// 1e-39 is denormal: it counts as zero whichever thread meets it, in a batch of any size.
TEST(StaticModel, DenormalsAreZeroAloneAndInAnyBatch) {
  const auto model = Model({{"0", "F32", "[1,2]", Bytes(std::vector<float>{1e-39f, 1.0f})}});
  EXPECT_THAT(Embed(*model, {0}, false), ElementsAre(0.0f, 1.0f));
  TokenBatch batch;
  for (int i = 0; i < 5000; ++i) batch.Append(std::vector<uint32_t>{0});
  std::vector<float> all(2 * batch.sequences(), -1.0f);
  ASSERT_TRUE(model->Embed(batch, {.normalize = false}, {all.data(), batch.sequences(), 2}).ok());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i % 2 == 0 ? 0.0f : 1.0f) << i;
}

TEST(StaticModel, AnIdBeyondTheTokensIsRefused) {
  const auto model = Model({kUnitRows});
  TokenBatch batch;
  batch.Append(std::vector<uint32_t>{0, 2});
  float out[2];
  EXPECT_EQ(model->Embed(batch, {}, {out, 1, 2}).error().message(),
            "sequence 0: token id 2, expected less than 2");
}

TEST(StaticTables, FaultsAreNamed) {
  EXPECT_THAT(RefusalOf({{"other", "F32", "[1]", Bytes(std::vector<float>{1})}}),
              HasSubstr("no tensor 'embeddings'"));
  EXPECT_THAT(RefusalOf({{"embeddings", "F32", "[4]", Bytes(std::vector<float>{1, 2, 3, 4})}}),
              HasSubstr("shape [4], expected [rows, dimensions]"));
  EXPECT_THAT(RefusalOf({{"embeddings", "I64", "[1,1]", Bytes(std::vector<int64_t>{1})}}),
              HasSubstr("type I64, expected F32, F16 or I8"));
  EXPECT_THAT(RefusalOf({kUnitRows, {"mapping", "I64", "[2]", Bytes(std::vector<int64_t>{0, 2})}}),
              HasSubstr("id 1 maps to row 2, expected 0 to 1"));
  EXPECT_THAT(RefusalOf({kUnitRows, {"mapping", "I64", "[1]", Bytes(std::vector<int64_t>{-1})}}),
              HasSubstr("id 0 maps to row -1, expected 0 to 1"));
  EXPECT_THAT(
      RefusalOf({kUnitRows, {"weights", "F64", "[3]", Bytes(std::vector<double>{1, 1, 1})}}),
      HasSubstr("3 values, expected one for each of 2 tokens"));
}

std::filesystem::path Config(const std::string& text) {
  const auto directory = NewTestDirectory("static");
  WriteTestFile(directory / "config.json", text);
  WriteTestFile(directory / "model.safetensors", "");
  WriteTestFile(directory / "tokenizer.json", "{}");
  return directory;
}

TEST(StaticConfig, DefaultsAreTheReferences) {
  const auto layout = FindStaticLayout(Config("{}"));
  ASSERT_TRUE(layout.has_value());
  const Result<StaticConfig> config = ReadStaticConfig(*layout);
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config.value().normalize);
  EXPECT_EQ(config.value().max_length, 512u);
}

// A value below the smallest normal number counts as zero wherever the text is computed.
TEST(StaticModel, DenormalsHaveTheSameBitsAloneAndInALargeBatch) {
  const std::vector<float> table = {1e-40f, 3.0f, 2e-39f, 1.0f};
  const auto model = Model({{"embeddings", "F32", "[2,2]", Bytes(table)}});
  const std::vector<float> alone = Embed(*model, {0, 1}, false);
  TokenBatch batch;
  constexpr size_t kTexts{5000};
  for (size_t i = 0; i < kTexts; ++i) batch.Append(std::vector<uint32_t>{0, 1});
  std::vector<float> out(kTexts * 2);
  ASSERT_TRUE(model->Embed(batch, {.normalize = false}, {out.data(), kTexts, 2}).ok());
  for (size_t i = 0; i < kTexts; ++i) {
    ASSERT_EQ(std::memcmp(out.data() + i * 2, alone.data(), 2 * sizeof(float)), 0) << i;
  }
  EXPECT_THAT(alone, ElementsAre(0.0f, 2.0f));
}

TEST(StaticConfig, NullMeansNoLimit) {
  const auto layout = FindStaticLayout(Config(R"({"max_length": null, "normalize": true})"));
  const Result<StaticConfig> config = ReadStaticConfig(*layout);
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config.value().normalize);
  EXPECT_EQ(config.value().max_length, std::nullopt);
}

TEST(StaticConfig, WrongTypesAreNamed) {
  const auto layout = FindStaticLayout(Config(R"({"max_length": "512"})"));
  const Result<StaticConfig> config = ReadStaticConfig(*layout);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("max_length"));
}

TEST(FindStaticLayout, TriesTheThreeLayoutsInOrder) {
  const auto native = Config("{}");
  EXPECT_EQ(FindStaticLayout(native)->config, native / "config.json");
  const auto nested = NewTestDirectory("static");
  WriteTestFile(nested / "config_sentence_transformers.json", "{}");
  EXPECT_FALSE(FindStaticLayout(nested).has_value());
  WriteTestFile(nested / "0_StaticEmbedding" / "model.safetensors", "");
  WriteTestFile(nested / "0_StaticEmbedding" / "tokenizer.json", "{}");
  EXPECT_EQ(FindStaticLayout(nested)->directory, nested / "0_StaticEmbedding");
}

TEST(MedianLength, IsRoundedDown) {
  std::vector<size_t> odd = {9, 1, 4};
  EXPECT_EQ(MedianLength(odd), 4u);
  std::vector<size_t> even = {7, 2, 4, 9};  // (4 + 7) / 2
  EXPECT_EQ(MedianLength(even), 5u);
  std::vector<size_t> none;
  EXPECT_EQ(MedianLength(none), 0u);
}

}  // namespace
}  // namespace sprat
