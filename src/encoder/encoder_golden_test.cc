// The published all-MiniLM-L6-v2 against vectors that sentence-transformers made of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/load_weights.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace sprat {
namespace {

struct Golden {
  TokenBatch batch;
  std::vector<float> vectors;  // a row a sequence
};

std::vector<float> DecodeBase64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits{
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;  // padding
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// The text after `key` in a line of JSON that json.dumps wrote.
std::string_view After(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  return at == std::string_view::npos ? "" : line.substr(at + key.size());
}

Golden ReadGolden() {
  Golden golden;
  std::ifstream file(SPRAT_TESTDATA "/golden/minilm.jsonl");
  for (std::string line; std::getline(file, line);) {
    std::vector<uint32_t> ids;
    std::string_view numbers = After(line, "\"ids\": [");
    numbers = numbers.substr(0, numbers.find(']'));
    for (size_t at = 0; at < numbers.size(); at = numbers.find(' ', at) + 1) {
      ids.push_back(static_cast<uint32_t>(std::strtoul(numbers.data() + at, nullptr, 10)));
      if (numbers.find(' ', at) == std::string_view::npos) break;
    }
    golden.batch.Append(ids);
    const std::vector<float> vector = DecodeBase64(After(line, "\"vector_f32le\": \""));
    golden.vectors.insert(golden.vectors.end(), vector.begin(), vector.end());
  }
  return golden;
}

double Dot(const float* a, const float* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
  return sum;
}

// Rows by falling similarity to row `query` of `vectors`, itself first.
std::vector<size_t> Neighbours(const std::vector<float>& vectors, size_t n, size_t query) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < vectors.size() / n; ++i) {
    order.emplace_back(-Dot(&vectors[query * n], &vectors[i * n], n), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> rows;
  for (const auto& [similarity, row] : order) rows.push_back(row);
  return rows;
}

TEST(Golden, MiniLmHasTheReferencesVectors) {
  const char* directory = std::getenv("SPRAT_TEST_MODEL");
  if (directory == nullptr || !std::filesystem::exists(directory)) {
    GTEST_SKIP() << "SPRAT_TEST_MODEL names no directory of all-MiniLM-L6-v2";
  }
  const Golden golden = ReadGolden();
  ASSERT_EQ(golden.batch.sequences(), 285u);
  const Result<TensorFile> file = TensorFile::OpenDirectory(directory);
  ASSERT_TRUE(file.ok()) << file.error().message();
  const EncoderConfig config = ReadEncoderConfig(directory).value();
  const auto encoder =
      Encoder::Create(config, {.max_sequence = 256}, SourceOf(file.value())).value();
  EXPECT_EQ(encoder->parameters(), 22'565'376u);

  const size_t n = encoder->dimensions();
  ASSERT_EQ(golden.vectors.size(), 285 * n);
  std::vector<float> got(285 * n);
  ASSERT_TRUE(encoder->Embed(golden.batch, {}, {got.data(), 285, n}).ok());
  double smallest_cosine = 1;
  double largest_difference = 0;
  for (size_t i = 0; i < 285; ++i) {
    const float* a = &got[i * n];
    const float* b = &golden.vectors[i * n];
    const double cosine = Dot(a, b, n) / std::sqrt(Dot(a, a, n) * Dot(b, b, n));
    ASSERT_FALSE(std::isnan(cosine));
    smallest_cosine = std::min(smallest_cosine, cosine);
    for (size_t c = 0; c < n; ++c) {
      largest_difference = std::max(largest_difference, std::fabs(double{a[c]} - b[c]));
    }
    // The same neighbours, where the reference's own similarities are not a tie in f32.
    const std::vector<size_t> ours = Neighbours(got, n, i);
    const std::vector<size_t> theirs = Neighbours(golden.vectors, n, i);
    for (size_t rank = 0; rank < 10; ++rank) {
      EXPECT_NEAR(Dot(b, &golden.vectors[ours[rank] * n], n),
                  Dot(b, &golden.vectors[theirs[rank] * n], n), 2e-6);
    }
  }
  std::printf("%s: smallest cosine %.9f, largest difference %.3g\n", encoder->kernels().name,
              smallest_cosine, largest_difference);
  EXPECT_GE(smallest_cosine, 0.999999);
  EXPECT_LE(largest_difference, 2e-5);
}

}  // namespace
}  // namespace sprat
