#include "ngram/ngram_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "ngram/dispatch.h"

namespace sprat {
namespace {

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

std::span<const NgramKernels* const> Tables() { return RunnableNgramKernels(); }

TEST(NgramKernels, TheTableToReadIsAlwaysThere) { EXPECT_STREQ(Tables().back()->name, "scalar"); }

TEST(NgramKernels, AForcedNameIsServedOrRefused) {
  EXPECT_EQ(FindNgramKernels("").value(), Tables().front());
  EXPECT_EQ(FindNgramKernels("scalar").value(), &ScalarNgramKernels());
  Result<const NgramKernels*> unknown = FindNgramKernels("avx1024");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message().find("'avx1024'"), std::string::npos);
}

TEST(DecodeE4m3, MatchesTheStandardsValues) {
  // 1.0, the largest, the smallest normal, the largest and smallest subnormal, zeros, NaNs.
  const uint8_t codes[] = {0x38, 0x7e, 0x08, 0x07, 0x01, 0x00, 0x80, 0xb9, 0x7f, 0xff};
  const float values[] = {1.0f,         448.0f, 0.015625f, 0.013671875f,
                          0.001953125f, 0.0f,   -0.0f,     -1.125f};
  for (const NgramKernels* table : Tables()) {
    uint16_t out[10] = {};
    table->decode_e4m3(codes, 0.5f, 10, out);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(FromBf16(out[i]), values[i] * 0.5f) << table->name << " " << i;
      EXPECT_EQ(std::signbit(FromBf16(out[i])), std::signbit(values[i])) << table->name << " " << i;
    }
    EXPECT_TRUE(std::isnan(FromBf16(out[8]))) << table->name;
    EXPECT_TRUE(std::isnan(FromBf16(out[9]))) << table->name;
  }
}

// 1 + 2^-8 is halfway between two bf16, 1 + 3 * 2^-8 too: to even, down and up.
TEST(DecodeE4m3, RoundsToNearestEven) {
  const uint8_t one[] = {0x38};
  for (const NgramKernels* table : Tables()) {
    uint16_t out[1];
    table->decode_e4m3(one, 0x1.01p0f, 1, out);
    EXPECT_EQ(FromBf16(out[0]), 1.0f) << table->name;
    table->decode_e4m3(one, 0x1.03p0f, 1, out);
    EXPECT_EQ(FromBf16(out[0]), 0x1.04p0f) << table->name;
  }
}

TEST(DecodeE4m3, EveryCodeAndLengthAgreesWithTheTableToRead) {
  std::vector<uint8_t> codes(256 + 40);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  for (const NgramKernels* table : Tables()) {
    for (const float scale : {1.0f, 0.3f, 1.7e-5f, 0.0f, 3e-38f}) {
      for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{15}, size_t{17},
                             size_t{33}, codes.size()}) {
        std::vector<uint16_t> expected(n), found(n + 1, 0xabcd);
        ScalarNgramKernels().decode_e4m3(codes.data(), scale, n, expected.data());
        table->decode_e4m3(codes.data(), scale, n, found.data());
        EXPECT_EQ(found[n], 0xabcd) << table->name << " wrote past n=" << n;
        for (size_t i = 0; i < n; ++i) {
          if (std::isnan(FromBf16(expected[i]))) {
            EXPECT_TRUE(std::isnan(FromBf16(found[i]))) << table->name << " code " << i;
          } else {
            EXPECT_EQ(found[i], expected[i]) << table->name << " code " << i << " scale " << scale;
          }
        }
      }
    }
  }
}

// A projection of random bf16 with everything around it that must not be touched.
struct Case {
  size_t tokens, depth, columns;
  std::vector<uint16_t> x, w;
  std::vector<float> word;

  Case(size_t t, size_t k, size_t c) : tokens(t), depth(k), columns(c) {
    std::mt19937 random(static_cast<uint32_t>(t * 1000 + k + c));
    std::uniform_int_distribution<uint32_t> bits(0, 0x1fff);
    const auto next = [&] {  // +-[2^-31, 1): exponents that f32 sums mix
      const uint32_t r = bits(random);
      return static_cast<uint16_t>(((r & 1) << 15) | (0x3000 + (r >> 1)));
    };
    for (size_t i = 0; i < t * k; ++i) x.push_back(next());
    for (size_t i = 0; i < k * Projection::kPanel; ++i) w.push_back(next());
    for (size_t i = 0; i < t * c; ++i) word.push_back(FromBf16(next()));
  }

  std::vector<float> Run(const NgramKernels& table, size_t stride) const {
    std::vector<float> y(tokens * stride + 1, -7.0f);
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t c = 0; c < columns; ++c) y[t * stride + c] = word[t * columns + c];
    }
    table.project({.x = x.data(),
                   .w = w.data(),
                   .depth = depth,
                   .y = y.data(),
                   .y_stride = stride,
                   .tokens = tokens,
                   .columns = columns,
                   .word_scale = 0.5f,
                   .sum_scale = 0.25f});
    return y;
  }
};

TEST(Project, MatchesHandComputedValues) {
  // x = [1, 2], w = [3, 4] in column 0, word row 10: 0.5 * 10 + 0.25 * (1 * 3 + 2 * 4) = 7.75.
  const uint16_t x[] = {0x3f80, 0x4000};
  uint16_t w[Projection::kPanel * 2] = {0x4040, 0x4080};
  for (const NgramKernels* table : Tables()) {
    float y[] = {10.0f};
    table->project({.x = x,
                    .w = w,
                    .depth = 2,
                    .y = y,
                    .y_stride = 1,
                    .tokens = 1,
                    .columns = 1,
                    .word_scale = 0.5f,
                    .sum_scale = 0.25f});
    EXPECT_EQ(y[0], 7.75f) << table->name;
  }
}

TEST(Project, AgreesWithDoublePrecision) {
  for (const NgramKernels* table : Tables()) {
    for (const Case& c : {Case(1, 2, 1), Case(2, 8, 16), Case(3, 64, 17), Case(8, 30, 47),
                          Case(9, 128, 48), Case(15, 256, 33), Case(21, 64, 48)}) {
      const size_t stride = c.columns + 3;
      const std::vector<float> y = c.Run(*table, stride);
      for (size_t t = 0; t < c.tokens; ++t) {
        for (size_t j = 0; j < stride; ++j) {
          if (j >= c.columns) {
            ASSERT_EQ(y[t * stride + j], -7.0f) << table->name << " wrote past its columns";
            continue;
          }
          double sum = 0, magnitude = 0;
          for (size_t k = 0; k < c.depth; ++k) {
            const double product = double{FromBf16(c.x[t * c.depth + k])} *
                                   FromBf16(c.w[(k / 2 * Projection::kPanel + j) * 2 + k % 2]);
            sum += product;
            magnitude += std::abs(product);
          }
          const double word = c.word[t * c.columns + j];
          const double bound = (static_cast<double>(c.depth) + 2) * 0x1p-24 *
                               (0.25 * magnitude + 0.5 * std::abs(word));
          EXPECT_NEAR(y[t * stride + j], 0.5 * word + 0.25 * sum, bound) << table->name;
        }
      }
    }
  }
}

TEST(Project, ATokensBitsDoNotDependOnItsNeighbours) {
  const Case all(19, 96, 48);
  for (const NgramKernels* table : Tables()) {
    const std::vector<float> together = all.Run(*table, all.columns);
    for (size_t t = 0; t < all.tokens; ++t) {
      Case alone(1, all.depth, all.columns);
      std::copy_n(all.x.begin() + static_cast<ptrdiff_t>(t * all.depth), all.depth,
                  alone.x.begin());
      alone.w = all.w;
      std::copy_n(all.word.begin() + static_cast<ptrdiff_t>(t * all.columns), all.columns,
                  alone.word.begin());
      const std::vector<float> y = alone.Run(*table, all.columns);
      for (size_t c = 0; c < all.columns; ++c) {
        ASSERT_EQ(std::bit_cast<uint32_t>(y[c]),
                  std::bit_cast<uint32_t>(together[t * all.columns + c]))
            << table->name << " token " << t;
      }
    }
  }
}

}  // namespace
}  // namespace sprat
