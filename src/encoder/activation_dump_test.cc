#include "encoder/activation_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/reference_for_test.h"
#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

std::string Content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(WriteNpy, IsWhatTheFormatSays) {
  const float values[] = {1.0f, -2.0f, 9.0f, 0.5f, 3.0f, 9.0f};
  const std::filesystem::path path = NewTestDirectory("npy") / "x.npy";
  ASSERT_TRUE(WriteNpy(path, {values, 2, 2, 3}).ok());
  const std::string bytes = Content(path);
  ASSERT_EQ(bytes.size(), 128u + 16u);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_THAT(bytes,
              testing::HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"));
  EXPECT_EQ(bytes[127], '\n');
  float read[4];
  std::memcpy(read, bytes.data() + 128, sizeof(read));
  EXPECT_THAT(read, testing::ElementsAre(1.0f, -2.0f, 0.5f, 3.0f));
}

TEST(ActivationDump, HasEachLayerOfEachChunk) {
  TinyModel model;
  model.config.vocabulary = 90;
  const ReferenceEncoder reference(model.config, model.Tensors());
  const std::filesystem::path directory = NewTestDirectory("dump");
  setenv("SPRAT_DUMP_DIR", directory.c_str(), 1);
  const auto encoder = Encoder::Create(model.config, {.threads = 2}, reference.Source()).value();
  unsetenv("SPRAT_DUMP_DIR");
  TokenBatch batch;
  const uint32_t ids[] = {2, 50, 60, 3};
  batch.Append(ids);
  std::vector<float> out(32);
  ASSERT_TRUE(encoder->Embed(batch, {}, {out.data(), 1, 32}).ok());
  for (size_t layer = 0; layer <= 2; ++layer) {
    const std::string name = layer == 0 ? "embeddings" : "layer0" + std::to_string(layer - 1);
    const std::string bytes = Content(directory / ("call0000_sequence0000_" + name + ".npy"));
    ASSERT_EQ(bytes.size(), 128 + 4 * 32 * sizeof(float)) << name;
    const auto expected = reference.Tokens(ids, layer);
    for (size_t i = 0; i < 4 * 32; ++i) {
      float value;
      std::memcpy(&value, bytes.data() + 128 + i * sizeof(float), sizeof(float));
      ASSERT_NEAR(value, expected[i / 32][i % 32], 1e-5) << name;
    }
  }
}

TEST(ActivationDump, ADirectoryThatDoesNotExistIsAnError) {
  TinyModel model;
  model.config.vocabulary = 90;
  const ReferenceEncoder reference(model.config, model.Tensors());
  setenv("SPRAT_DUMP_DIR", "/nonexistent", 1);
  const auto encoder = Encoder::Create(model.config, {.threads = 1}, reference.Source()).value();
  unsetenv("SPRAT_DUMP_DIR");
  TokenBatch batch;
  const uint32_t ids[] = {2, 3};
  batch.Append(ids);
  std::vector<float> out(32);
  const Result<void> result = encoder->Embed(batch, {}, {out.data(), 1, 32});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message(),
              testing::HasSubstr("SPRAT_DUMP_DIR: /nonexistent/call0000"));
}

}  // namespace
}  // namespace sprat
