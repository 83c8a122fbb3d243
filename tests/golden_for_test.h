// Vectors of reference implementations (testdata/golden).
#ifndef SPRAT_TESTS_GOLDEN_FOR_TEST_H_
#define SPRAT_TESTS_GOLDEN_FOR_TEST_H_

#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine_for_test.h"

namespace sprat {

// A text and what the reference makes of it.
struct GoldenText {
  std::string text;
  std::vector<uint32_t> ids;
  std::vector<float> vector;
};

// Little-endian f32, base64.
inline std::vector<float> DecodeFloats(std::string_view base64) {
  constexpr std::string_view kDigits{
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64.substr(0, base64.find('='))) {
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 255));
  }
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// Every line of testdata/golden/`name`.
inline std::vector<GoldenText> ReadGolden(const std::string& name) {
  std::vector<GoldenText> golden;
  simdjson::dom::parser parser;
  simdjson::dom::document_stream lines;
  const std::string path = std::string(SPRAT_TESTDATA) + "/golden/" + name;
  EXPECT_EQ(parser.load_many(path).get(lines), simdjson::SUCCESS) << path;
  for (auto line : lines) {
    GoldenText entry;
    entry.text = std::string_view(line["text"]);
    for (const uint64_t id : line["ids"].get_array()) {
      entry.ids.push_back(static_cast<uint32_t>(id));
    }
    entry.vector = DecodeFloats(std::string_view(line["vector_f32le"]));
    golden.push_back(std::move(entry));
  }
  return golden;
}

inline double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

inline double Cosine(std::span<const float> a, std::span<const float> b) {
  return Dot(a, b) / (Norm(a) * Norm(b));
}

}  // namespace sprat

#endif  // SPRAT_TESTS_GOLDEN_FOR_TEST_H_
