#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <ostream>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/dispatch.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernels.h"

namespace sprat {
namespace {

// W (out, in) and b, packed for one table.
struct Weights {
  std::vector<float> w;
  std::vector<float> b;
  size_t in;
  size_t out;
  ByteBuffer panels;
  Buffer<float> bias;

  Weights(const Kernels& k, std::vector<float> w_values, std::vector<float> b_values)
      : w(std::move(w_values)), b(std::move(b_values)), in(w.size() / b.size()), out(b.size()) {
    panels = ByteBuffer::Allocate(panel_count(k) * k.panel_bytes(in)).value();
    bias = Buffer<float>::Allocate(panel_count(k) * k.panel_rows).value();
    for (size_t p = 0; p < panel_count(k); ++p) {
      k.pack_panel(w.data(), in, out, p * k.panel_rows, panels.begin() + p * k.panel_bytes(in));
    }
    std::copy(b.begin(), b.end(), bias.begin());
  }

  size_t panel_count(const Kernels& k) const { return (out + k.panel_rows - 1) / k.panel_rows; }
  PackedWeights packed() const {
    return {.panels = panels.begin(), .bias = bias.begin(), .in = in, .out = out};
  }
};

Weights RandomWeights(const Kernels& k, size_t out, size_t in) {
  return {k, Guarded({.rows = out, .columns = in}, out * 1000 + in).Dense(),
          Guarded({.rows = 1, .columns = out}, in).Dense()};
}

// Rows [first, first + rows) of x through all panels.
void RunLinear(const Kernels& k, const Weights& w, Epilogue epilogue, MatrixView<float> x,
               MatrixView<float> y) {
  k.linear({.x = x.elements,
            .x_stride = x.stride,
            .rows = x.rows,
            .weights = w.packed(),
            .first_panel = 0,
            .panels = w.panel_count(k),
            .epilogue = epilogue,
            .y = y.elements,
            .y_stride = y.stride});
}

double Exact(Epilogue epilogue, double x) {
  switch (epilogue) {
    case Epilogue::kNone:
      return x;
    case Epilogue::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Epilogue::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Epilogue::kRelu:
      return x > 0.0 ? x : 0.0;
  }
  return x;
}

class Linear : public testing::TestWithParam<const Kernels*> {};

INSTANTIATE_TEST_SUITE_P(Tables, Linear, testing::ValuesIn(RunnableKernels()),
                         [](const auto& table) { return std::string(table.param->name); });

TEST_P(Linear, MatchesHandComputedValues) {
  const Kernels& k = *GetParam();
  const Weights w(k, {3, 4, 5, 6, -1, 0}, {0.5, -0.5, 8});
  Guarded x({.rows = 2, .columns = 2});
  x.Row(0)[0] = 1;
  x.Row(0)[1] = 2;
  x.Row(1)[0] = -1;
  const Guarded y({.rows = 2, .columns = 3});
  RunLinear(k, w, Epilogue::kNone, x.view(), y.view());
  EXPECT_EQ(y.Dense(), (std::vector<float>{11.5, 16.5, 7, -2.5, -5.5, 9}));
  RunLinear(k, w, Epilogue::kRelu, x.view(), y.view());
  EXPECT_EQ(y.Dense(), (std::vector<float>{11.5, 16.5, 7, 0, 0, 9}));
}

TEST_P(Linear, IsWithinTheBoundForOddSizes) {
  const Kernels& k = *GetParam();
  for (const size_t in : {1, 2, 15, 16, 17, 33, 100}) {
    for (const size_t out : {1, 7, 15, 16, 17, 31, 33, 47, 48, 49, 97}) {
      const Weights w = RandomWeights(k, out, in);
      for (const size_t rows : {1, 2, 3, 5, 6, 7, 8, 9, 13, 17}) {
        const Guarded x({.rows = rows, .columns = in, .misaligned_floats = rows % 4}, rows);
        const Guarded y({.rows = rows, .columns = out, .misaligned_floats = out % 3});
        RunLinear(k, w, Epilogue::kNone, x.view(), y.view());
        ASSERT_TRUE(y.GuardsIntact()) << in << " " << out << " " << rows;
        for (size_t r = 0; r < rows; ++r) {
          for (size_t o = 0; o < out; ++o) {
            double exact = w.b[o];
            double magnitude = std::fabs(exact);
            for (size_t i = 0; i < in; ++i) {
              const double product = double{x.Row(r)[i]} * w.w[o * in + i];
              exact += product;
              magnitude += std::fabs(product);
            }
            const double bound = static_cast<double>(in + 1) * kUnitRoundoff * magnitude;
            ASSERT_NEAR(y.Row(r)[o], exact, bound) << in << " " << out << " " << rows;
          }
        }
      }
    }
  }
}

// x . 1 + 0 is x itself, so only the epilogue is measured.
TEST_P(Linear, EpiloguesAreWithinTheirBounds) {
  const Kernels& k = *GetParam();
  const Weights identity(k, {1}, {0});
  for (const Epilogue epilogue :
       {Epilogue::kNone, Epilogue::kGelu, Epilogue::kGeluTanh, Epilogue::kRelu}) {
    Guarded x({.rows = 1, .columns = 1});
    const Guarded y({.rows = 1, .columns = 1});
    for (double at = -20.0; at <= 20.0; at += 1.0 / 512) {
      x.Row(0)[0] = static_cast<float>(at);
      RunLinear(k, identity, epilogue, x.view(), y.view());
      ASSERT_NEAR(y.Row(0)[0], Exact(epilogue, at), 4e-7 * std::fabs(at)) << "x=" << at;
    }
    for (const float at : {-1e30f, 1e30f, -INFINITY, INFINITY}) {
      x.Row(0)[0] = at;
      RunLinear(k, identity, epilogue, x.view(), y.view());
      if (at > 0) {
        ASSERT_TRUE(y.Row(0)[0] == at || std::fabs(y.Row(0)[0] / at - 1.0f) < 4e-7f) << at;
      } else if (epilogue == Epilogue::kRelu) {
        ASSERT_EQ(y.Row(0)[0], 0.0f);
      }
    }
  }
}

TEST_P(Linear, NanStaysNan) {
  const Kernels& k = *GetParam();
  const Weights identity(k, {1}, {0});
  const Guarded y({.rows = 1, .columns = 1});
  Guarded x({.rows = 1, .columns = 1});
  x.Fill(NAN);
  for (const Epilogue epilogue :
       {Epilogue::kNone, Epilogue::kGelu, Epilogue::kGeluTanh, Epilogue::kRelu}) {
    y.view().elements[0] = 0.0f;
    RunLinear(k, identity, epilogue, x.view(), y.view());
    EXPECT_TRUE(std::isnan(y.Row(0)[0]));
  }
}

TEST_P(Linear, ARowHasTheSameBitsAloneAndAnywhere) {
  const Kernels& k = *GetParam();
  const Weights w = RandomWeights(k, 100, 70);
  const Guarded all({.rows = 23, .columns = 70}, 1);
  const Guarded expected({.rows = 23, .columns = 100});
  for (size_t r = 0; r < 23; ++r) {
    RunLinear(k, w, Epilogue::kGelu, all.view().Rows(r, 1), expected.view().Rows(r, 1));
  }
  for (size_t first = 0; first < 23; ++first) {
    for (size_t rows = 1; first + rows <= 23; ++rows) {
      const Guarded y({.rows = rows, .columns = 100, .misaligned_floats = rows % 5});
      RunLinear(k, w, Epilogue::kGelu, all.view().Rows(first, rows), y.view());
      for (size_t r = 0; r < rows; ++r) {
        ASSERT_EQ(std::memcmp(y.Row(r), expected.Row(first + r), 100 * sizeof(float)), 0)
            << "rows " << first << " + " << rows << ", row " << r;
      }
    }
  }
}

TEST_P(Linear, ComputesOnlyThePanelsAskedFor) {
  const Kernels& k = *GetParam();
  const Weights w = RandomWeights(k, 3 * k.panel_rows, 40);
  const Guarded x({.rows = 5, .columns = 40}, 3);
  const Guarded whole({.rows = 5, .columns = w.out});
  RunLinear(k, w, Epilogue::kNone, x.view(), whole.view());
  Guarded middle({.rows = 5, .columns = w.out});
  middle.Fill(7.0f);
  k.linear({.x = x.Row(0),
            .x_stride = x.stride(),
            .rows = 5,
            .weights = w.packed(),
            .first_panel = 1,
            .panels = 1,
            .epilogue = Epilogue::kNone,
            .y = middle.Row(0),
            .y_stride = middle.stride()});
  for (size_t r = 0; r < 5; ++r) {
    for (size_t o = 0; o < w.out; ++o) {
      const bool asked_for = o / k.panel_rows == 1;
      EXPECT_EQ(middle.Row(r)[o], asked_for ? whole.Row(r)[o] : 7.0f) << o;
    }
  }
}

// The vector tables add in the same order, so an index made on one machine fits another.
TEST(LinearTables, VectorTablesGiveTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const Kernels* k : RunnableKernels()) {
    if (std::string(k->name) == "scalar") continue;
    const Weights w = RandomWeights(*k, 61, 77);
    for (const Epilogue epilogue : {Epilogue::kGelu, Epilogue::kGeluTanh}) {
      const Guarded x({.rows = 11, .columns = 77}, 5);
      const Guarded y({.rows = 11, .columns = 61});
      RunLinear(*k, w, epilogue, x.view(), y.view());
      results.push_back(y.Dense());
    }
  }
  for (size_t i = 2; i < results.size(); ++i) EXPECT_TRUE(SameBits(results[i], results[i % 2]));
}

}  // namespace
}  // namespace sprat
