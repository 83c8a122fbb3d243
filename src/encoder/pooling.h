// From the vectors of a sequence's tokens to the vector of the sequence.
#ifndef SPRAT_ENCODER_POOLING_H_
#define SPRAT_ENCODER_POOLING_H_

#include <span>

#include "base/matrix_view.h"
#include "kernels/kernels.h"
#include "model/config.h"

namespace sprat {

// Writes the first out.size() columns of the pooled vector; `x` has S >= 1 rows, special tokens
// included. Pooling in sentence-transformers, where every token of the sequence is attended to:
//   kCls            x[0]
//   kMean           sum_i x[i] / S
//   kMax            max_i x[i]
//   kMeanSqrtLen    sum_i x[i] / sqrt(S)
//   kWeightedMean   sum_i (i + 1) x[i] / sum_i (i + 1)
//   kLastToken      x[S - 1]
// counting: 1, 2, 3, ...; at least S of them.
void PoolSequence(const Kernels& kernels, Pooling pooling, MatrixView<const float> x,
                  std::span<const float> counting, std::span<float> out);

}  // namespace sprat

#endif  // SPRAT_ENCODER_POOLING_H_
