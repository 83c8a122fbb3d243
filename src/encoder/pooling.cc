#include "encoder/pooling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sprat {

void PoolSequence(const Kernels& kernels, Pooling pooling, MatrixView<const float> x,
                  std::span<const float> counting, std::span<float> out) {
  CHECK(x.rows >= 1 && counting.size() >= x.rows && out.size() <= x.columns);
  const float S = static_cast<float>(x.rows);
  SumRowsArgs rows{.x = x.elements,
                   .x_stride = x.stride,
                   .rows = x.rows,
                   .columns = out.size(),
                   .weights = nullptr,
                   .scale = 1.0f,
                   .out = out.data()};
  switch (pooling) {
    case Pooling::kCls:
      std::copy_n(x.Row(0), out.size(), out.data());
      return;
    case Pooling::kLastToken:
      std::copy_n(x.Row(x.rows - 1), out.size(), out.data());
      return;
    case Pooling::kMax:
      return kernels.max_rows(rows);
    case Pooling::kMean:
      rows.scale = 1.0f / S;
      return kernels.sum_rows(rows);
    case Pooling::kMeanSqrtLen:
      rows.scale = 1.0f / std::sqrt(S);
      return kernels.sum_rows(rows);
    case Pooling::kWeightedMean:
      rows.weights = counting.data();
      rows.scale = 2.0f / (S * (S + 1.0f));
      return kernels.sum_rows(rows);
  }
}

}  // namespace sprat
