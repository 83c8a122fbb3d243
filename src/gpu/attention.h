// Softmax attention over packed sequences: one kernel for both paths.
#ifndef SPRAT_GPU_ATTENTION_H_
#define SPRAT_GPU_ATTENTION_H_

#include <cuda_runtime_api.h>

#include "gpu/row_kernels.h"

namespace sprat::gpu {

// Enqueues kContext = softmax(Q K^T / sqrt(D)) V for every attention item of the request and every
// head. Numerics: f16 products, f32 scores, softmax and sums; probabilities are rounded to f16
// before they meet V; kKeyStep keys at a time with a running maximum. A row depends on its sequence
// only.
cudaError_t LaunchAttention(const LaunchContext& context);

// Enqueues kNormAttend: the request is one sequence of at most kQueryTokens tokens. A block has one
// head. Numerics: as kNormLinear and kAttention, with the same bits.
cudaError_t LaunchQueryAttention(const Step& step, const LaunchContext& context);

// Once a device, as PrepareRowKernels.
cudaError_t PrepareQueryAttention();

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_ATTENTION_H_
