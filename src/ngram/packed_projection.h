// The G projections as one matrix, packed for the kernels.
#ifndef SPRAT_NGRAM_PACKED_PROJECTION_H_
#define SPRAT_NGRAM_PACKED_PROJECTION_H_

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "ngram/ngram_config.h"
#include "ngram/ngram_kernels.h"
#include "ngram/ngram_tensors.h"
#include "sprat/result.h"

namespace sprat {

// sum_i W_i T_i[id_i] = concat_i(T_i[id_i]) . stack_i(W_i)^T, since all W_i are linear: one product
// of (T, H) by (H, H) in place of G small ones. Held in bf16 as panels of Projection::kPanel output
// columns, pairs of k side by side, in the order in which they are read.
class PackedProjection {
 public:
  // W_i [H, d] of F32, F16 (rounded to bf16) or BF16. Errors: kUnsupported naming tensor and type;
  // kOutOfMemory.
  static Result<PackedProjection> Pack(const NgramConfig& config, const NgramTensors& tensors,
                                       ThreadPool& threads);

  // y[t] = word_scale * y[t] + sum_scale * x[t] . W^T for every t, the share of `rank` of the
  // panels. x: tokens x depth(), zero from H on; y: tokens x H, f32: the word rows, then the
  // result.
  struct Task {
    const uint16_t* x = nullptr;
    float* y = nullptr;
    size_t tokens = 0;
    float word_scale = 1;
    float sum_scale = 1;
  };
  void Apply(const Task& task, const NgramKernels& kernels, Share panels) const;

  size_t panels() const { return panels_; }
  size_t depth() const { return depth_; }  // H rounded up to even
  size_t size_bytes() const { return weights_.size() * sizeof(uint16_t); }
  // The same of what Pack would return.
  static uint64_t SizeBytes(const NgramConfig& config);

 private:
  size_t hidden_ = 0;
  size_t depth_ = 0;
  size_t panels_ = 0;
  Buffer<uint16_t> weights_;  // panels x (depth / 2) x kPanel x 2
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_PACKED_PROJECTION_H_
