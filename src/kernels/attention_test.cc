#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/dispatch.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernels.h"

namespace sprat {
namespace {

// One head: q, k and v side by side in one matrix, as the encoder has them.
struct Head {
  Guarded qkv;
  size_t keys;
  size_t size;

  Head(size_t key_count, size_t head_size, uint64_t seed)
      : qkv({.rows = key_count, .columns = 3 * head_size}, seed),
        keys(key_count),
        size(head_size) {}

  const float* q(size_t i) const { return qkv.Row(i); }
  const float* k(size_t i) const { return qkv.Row(i) + size; }
  const float* v(size_t i) const { return qkv.Row(i) + 2 * size; }
};

void RunAttention(const Kernels& kernels, const Head& head, size_t first, size_t queries,
                  const Guarded& out) {
  const Buffer<float> scratch =
      Buffer<float>::Allocate(kernels.attention_scratch(head.keys, head.size)).value();
  std::fill(scratch.begin(), scratch.end(), NAN);  // whatever was there must not matter
  kernels.attention({.q = head.q(0),
                     .k = head.k(0),
                     .v = head.v(0),
                     .stride = head.qkv.stride(),
                     .keys = head.keys,
                     .head_size = head.size,
                     .first_query = first,
                     .queries = queries,
                     .out = out.Row(0),
                     .out_stride = out.stride(),
                     .scratch = scratch.begin()});
}

double Dot(const float* a, const float* b, size_t n, bool magnitudes) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const double product = double{a[i]} * b[i];
    sum += magnitudes ? std::fabs(product) : product;
  }
  return sum;
}

// Compares row i of `out` with the definition in double precision, within the bound of kernels.h.
void ExpectRow(const Head& head, size_t i, const float* out) {
  const double root = std::sqrt(static_cast<double>(head.size));
  std::vector<double> scores;
  double magnitude = 0;
  for (size_t j = 0; j < head.keys; ++j) {
    scores.push_back(Dot(head.q(i), head.k(j), head.size, false) / root);
    magnitude = std::max(magnitude, Dot(head.q(i), head.k(j), head.size, true) / root);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  const double exponents =
      2.0 * static_cast<double>(head.size + 2) * kUnitRoundoff * magnitude + 4e-7;
  for (size_t d = 0; d < head.size; ++d) {
    double mixed = 0;
    double largest_value = 0;
    for (size_t j = 0; j < head.keys; ++j) {
      mixed += scores[j] / sum * head.v(j)[d];
      largest_value = std::max(largest_value, std::fabs(double{head.v(j)[d]}));
    }
    const double bound =
        (2 * exponents + static_cast<double>(head.keys + 4) * kUnitRoundoff) * largest_value;
    ASSERT_NEAR(out[d], mixed, bound) << "S=" << head.keys << " D=" << head.size << " i=" << i;
  }
}

class Attention : public testing::TestWithParam<const Kernels*> {};

INSTANTIATE_TEST_SUITE_P(Tables, Attention, testing::ValuesIn(RunnableKernels()),
                         [](const auto& table) { return std::string(table.param->name); });

TEST_P(Attention, MatchesHandComputedValues) {
  // Scores of the first query: 2 * ln(3) / sqrt(4) and 0, so the weights are 3/4 and 1/4.
  Head head(2, 4, 1);
  head.qkv.Fill(0.0f);
  head.qkv.Row(0)[0] = 2.0f;
  head.qkv.Row(0)[4] = 1.0986123f;
  head.qkv.Row(0)[8] = 4.0f;
  head.qkv.Row(1)[11] = -8.0f;
  const Guarded out({.rows = 2, .columns = 4});
  RunAttention(*GetParam(), head, 0, 2, out);
  const float expected[2][4] = {{3, 0, 0, -2}, {2, 0, 0, -4}};  // the second query weighs equally
  for (size_t i = 0; i < 2; ++i) {
    for (size_t d = 0; d < 4; ++d) EXPECT_NEAR(out.Row(i)[d], expected[i][d], 4e-6) << i << d;
  }
}

TEST_P(Attention, IsWithinTheBoundForOddSizes) {
  for (const size_t size : {1, 3, 8, 15, 16, 17, 20, 31, 32, 33, 64, 100}) {
    for (const size_t keys : {1, 2, 7, 15, 16, 17, 31, 33, 47, 48, 49, 95, 97, 130}) {
      const Head head(keys, size, size * 1000 + keys);
      const Guarded out({.rows = keys, .columns = size, .misaligned_floats = keys % 3});
      RunAttention(*GetParam(), head, 0, keys, out);
      ASSERT_TRUE(out.GuardsIntact()) << keys << " " << size;
      for (size_t i = 0; i < keys; ++i) ASSERT_NO_FATAL_FAILURE(ExpectRow(head, i, out.Row(i)));
    }
  }
}

// Scores around +-40 and far apart: nothing overflows, and far keys count for nothing.
TEST_P(Attention, LargeScoresStayFinite) {
  Head head(50, 32, 9);
  for (size_t i = 0; i < 50; ++i) {
    for (size_t d = 0; d < 64; ++d) head.qkv.Row(i)[d] *= 30.0f;
  }
  const Guarded out({.rows = 50, .columns = 32});
  RunAttention(*GetParam(), head, 0, 50, out);
  for (size_t i = 0; i < 50; ++i) ASSERT_NO_FATAL_FAILURE(ExpectRow(head, i, out.Row(i)));
}

TEST_P(Attention, QueriesHaveTheSameBitsAloneAndTogether) {
  const Head head(37, 20, 4);
  const Guarded together({.rows = 37, .columns = 20});
  RunAttention(*GetParam(), head, 0, 37, together);
  for (size_t first = 0; first < 37; ++first) {
    for (const size_t queries : {size_t{1}, size_t{2}, (37 - first + 1) / 2, 37 - first}) {
      if (first + queries > 37) continue;
      Guarded out({.rows = 37, .columns = 20, .misaligned_floats = 3});
      out.Fill(7.0f);
      RunAttention(*GetParam(), head, first, queries, out);
      for (size_t i = 0; i < 37; ++i) {
        const bool asked_for = i >= first && i < first + queries;
        for (size_t d = 0; d < 20; ++d) {
          ASSERT_EQ(out.Row(i)[d], asked_for ? together.Row(i)[d] : 7.0f) << first << " " << i;
        }
      }
    }
  }
}

TEST(AttentionTables, VectorTablesGiveTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const Kernels* k : RunnableKernels()) {
    if (std::string(k->name) == "scalar") continue;
    const Head head(53, 40, 8);
    const Guarded out({.rows = 53, .columns = 40});
    RunAttention(*k, head, 0, 53, out);
    results.push_back(out.Dense());
  }
  for (const std::vector<float>& result : results) EXPECT_TRUE(SameBits(result, results.front()));
}

}  // namespace
}  // namespace sprat
