#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernels.h"

namespace sprat {
namespace {

constexpr size_t kOddSizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 100, 384, 385};

class Rows : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Tables, Rows, testing::ValuesIn(RunnableKernels()),
                         [](const auto& table) { return std::string(table.param->name); });

struct Norm {
  Guarded gamma;
  Guarded beta;
  float eps;
};

void RunLayerNorm(const Kernels& k, const Norm& norm, const Guarded& y, const Guarded& x) {
  k.add_layer_norm({.x = x.Row(0),
                    .x_stride = x.stride(),
                    .y = y.Row(0),
                    .y_stride = y.stride(),
                    .rows = x.view().rows,
                    .columns = x.view().columns,
                    .gamma = norm.gamma.Row(0),
                    .beta = norm.beta.Row(0),
                    .eps = norm.eps});
}

// Case B42: eps counts when activations are small.
TEST_P(Rows, LayerNormHonoursEps) {
  for (const auto& [eps, expected] : {std::pair{1e-12f, 0.9999995f}, {1e-5f, 0.3015113f}}) {
    Norm norm{Guarded({.rows = 1, .columns = 2}), Guarded({.rows = 1, .columns = 2}), eps};
    norm.gamma.Fill(1.0f);
    const Guarded y({.rows = 1, .columns = 2});
    const Guarded x({.rows = 1, .columns = 2});
    x.Row(0)[0] = 1e-3f;
    x.Row(0)[1] = -1e-3f;
    RunLayerNorm(k(), norm, y, x);
    EXPECT_NEAR(x.Row(0)[0], expected, 3e-7);
    EXPECT_NEAR(x.Row(0)[1], -expected, 3e-7);
  }
}

TEST_P(Rows, LayerNormMatchesHandComputedValues) {
  Norm norm{Guarded({.rows = 1, .columns = 4}), Guarded({.rows = 1, .columns = 4}), 0.0f};
  norm.gamma.Fill(2.0f);
  norm.beta.Fill(1.0f);
  Guarded y({.rows = 1, .columns = 4});
  y.Fill(5.0f);
  const Guarded x({.rows = 1, .columns = 4});
  const float before[] = {-3, 3, -3, 3};  // mean of x + y 5, deviation 3
  std::copy_n(before, 4, x.Row(0));
  RunLayerNorm(k(), norm, y, x);
  EXPECT_EQ(x.Dense(), (std::vector<float>{-1, 3, -1, 3}));
}

TEST_P(Rows, LayerNormIsWithinTheBoundForOddSizes) {
  for (const size_t n : kOddSizes) {
    const Norm norm{Guarded({.rows = 1, .columns = n}, 1), Guarded({.rows = 1, .columns = n}, 2),
                    1e-6f};
    const Guarded y({.rows = 3, .columns = n}, n);
    const Guarded x({.rows = 3, .columns = n, .misaligned_floats = n % 4}, n + 1);
    const std::vector<float> x_before = x.Dense();
    RunLayerNorm(k(), norm, y, x);
    ASSERT_TRUE(x.GuardsIntact());
    for (size_t r = 0; r < 3; ++r) {
      std::vector<double> t;
      double mean = 0;
      double largest = 0;
      for (size_t c = 0; c < n; ++c) {
        t.push_back(x_before[r * n + c] + y.Row(r)[c]);  // rounded to f32, as the contract says
        mean += t.back() / static_cast<double>(n);
        largest = std::max(largest, std::fabs(t.back()));
      }
      double variance = 0;
      for (const double v : t) variance += (v - mean) * (v - mean) / static_cast<double>(n);
      const double scale = 1.0 / std::sqrt(variance + double{norm.eps});
      for (size_t c = 0; c < n; ++c) {
        const double gamma = norm.gamma.Row(0)[c];
        const double beta = norm.beta.Row(0)[c];
        const double normalised = (t[c] - mean) * scale;
        const double bound =
            static_cast<double>(n + 8) * kUnitRoundoff *
            (std::fabs(gamma) * (largest * scale + std::fabs(normalised)) + std::fabs(beta));
        ASSERT_NEAR(x.Row(r)[c], gamma * normalised + beta, bound) << "n=" << n << " c=" << c;
      }
    }
  }
}

TEST_P(Rows, SumOfRowsMatchesHandComputedValues) {
  const Guarded x({.rows = 2, .columns = 3});
  const float values[] = {1, 2, 3, 10, 20, -3};
  for (size_t r = 0; r < 2; ++r) std::copy_n(values + 3 * r, 3, x.Row(r));
  const Guarded out({.rows = 1, .columns = 3});
  SumRowsArgs args{.x = x.Row(0),
                   .x_stride = x.stride(),
                   .rows = 2,
                   .columns = 3,
                   .weights = nullptr,
                   .scale = 0.5f,
                   .out = out.Row(0)};
  k().sum_rows(args);
  EXPECT_EQ(out.Dense(), (std::vector<float>{5.5, 11, 0}));
  const float weights[] = {1, 2};
  args.weights = weights;
  k().sum_rows(args);
  EXPECT_EQ(out.Dense(), (std::vector<float>{10.5, 21, -1.5}));
  k().max_rows(args);
  EXPECT_EQ(out.Dense(), (std::vector<float>{10, 20, 3}));
}

TEST_P(Rows, SumAndMaximumOfRowsAreRightForOddSizes) {
  for (const size_t n : kOddSizes) {
    for (const size_t rows : {1, 2, 5, 67}) {
      const Guarded x({.rows = rows, .columns = n}, n * 100 + rows);
      const Guarded weights({.rows = 1, .columns = rows}, 3);
      const Guarded out({.rows = 1, .columns = n, .misaligned_floats = 2});
      const SumRowsArgs args{.x = x.Row(0),
                             .x_stride = x.stride(),
                             .rows = rows,
                             .columns = n,
                             .weights = weights.Row(0),
                             .scale = 0.3f,
                             .out = out.Row(0)};
      k().sum_rows(args);
      ASSERT_TRUE(out.GuardsIntact());
      for (size_t c = 0; c < n; ++c) {
        double exact = 0;
        double magnitude = 0;
        for (size_t r = 0; r < rows; ++r) {
          const double product = double{weights.Row(0)[r]} * x.Row(r)[c] * double{0.3f};
          exact += product;
          magnitude += std::fabs(product);
        }
        const double bound = static_cast<double>(rows + 1) * kUnitRoundoff * magnitude;
        ASSERT_NEAR(out.Row(0)[c], exact, bound) << n << " " << rows;
      }
      k().max_rows(args);
      ASSERT_TRUE(out.GuardsIntact());
      for (size_t c = 0; c < n; ++c) {
        float largest = x.Row(0)[c];
        for (size_t r = 1; r < rows; ++r) largest = std::max(largest, x.Row(r)[c]);
        ASSERT_EQ(out.Row(0)[c], largest);
      }
    }
  }
}

TEST_P(Rows, NormaliseMatchesHandComputedValues) {
  const Guarded x({.rows = 1, .columns = 2});
  x.Row(0)[0] = 3.0f;
  x.Row(0)[1] = -4.0f;
  k().l2_normalize(x.Row(0), 2);
  EXPECT_EQ(x.Dense(), (std::vector<float>{0.6f, -0.8f}));
  const Guarded zero({.rows = 1, .columns = 2});
  k().l2_normalize(zero.Row(0), 2);
  EXPECT_EQ(zero.Dense(), (std::vector<float>{0, 0}));
  x.Row(0)[0] = 3e-13f;  // shorter than 1e-12: divided by that
  x.Row(0)[1] = 4e-13f;
  k().l2_normalize(x.Row(0), 2);
  EXPECT_NEAR(x.Row(0)[0], 0.3f, 1e-7);
  EXPECT_NEAR(x.Row(0)[1], 0.4f, 1e-7);
}

TEST_P(Rows, NormaliseIsWithinTheBoundForOddSizes) {
  for (const size_t n : kOddSizes) {
    const Guarded x({.rows = 1, .columns = n, .misaligned_floats = n % 5}, n);
    const std::vector<float> before = x.Dense();
    k().l2_normalize(x.Row(0), n);
    ASSERT_TRUE(x.GuardsIntact());
    double squares = 0;
    for (const float v : before) squares += double{v} * v;
    for (size_t c = 0; c < n; ++c) {
      const double exact = before[c] / std::sqrt(squares);
      const double bound = (static_cast<double>(n) / 2 + 4) * kUnitRoundoff * std::fabs(exact);
      ASSERT_NEAR(x.Row(0)[c], exact, bound);
    }
  }
}

TEST(RowsTables, VectorTablesGiveTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const Kernels* k : RunnableKernels()) {
    if (std::string(k->name) == "scalar") continue;
    const Norm norm{Guarded({.rows = 1, .columns = 91}, 1), Guarded({.rows = 1, .columns = 91}, 2),
                    1e-6f};
    const Guarded y({.rows = 4, .columns = 91}, 3);
    const Guarded x({.rows = 4, .columns = 91}, 4);
    RunLayerNorm(*k, norm, y, x);
    k->l2_normalize(x.Row(1), 91);
    results.push_back(x.Dense());
  }
  for (const std::vector<float>& result : results) EXPECT_TRUE(SameBits(result, results.front()));
}

}  // namespace
}  // namespace sprat
