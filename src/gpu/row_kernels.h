// The kernels of the row path and attention, which both paths share. Everything here enqueues on a
// stream and returns what the launch said.
#ifndef SPRAT_GPU_ROW_KERNELS_H_
#define SPRAT_GPU_ROW_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/plan.h"
#include "model/config.h"

namespace sprat::gpu {

// Where everything lies in device memory.
struct Buffers {
  const std::byte* weights;  // WeightLayout
  const std::byte* source;   // the request as the host wrote it; kEmbed copies it to `request`
  std::byte* request;        // RequestLayout
  float* sum;                // Buffer::kSum and so on
  float* state;
  uint16_t* operand;
  uint16_t* qkv;
  uint16_t* context;
  uint16_t* inner;
  float* result;
  uint32_t rows;  // capacity in tokens: the number of rows of every panel
};

// What one launch needs beside the buffers.
struct LaunchContext {
  Buffers buffers;
  WeightLayout weights;
  RequestLayout request;
  uint32_t tokens;  // T, or the bucket it was rounded up to; rows beyond T hold nothing of meaning
  uint32_t sequences;  // B, or its bound
  uint32_t items;      // attention items, or their bound
  uint32_t longest;    // tokens of the longest sequence, or their bound
  uint32_t tile_rows;  // tokens of a row tile: 16 or 32
  Pooling pooling;
  float eps;
  bool overlap;  // programmatic dependent launch
  bool early;    // the next kernel may start when this one does, not only when this one may compute
  cudaStream_t stream;
};

// Enqueues one step of the row path, kAttention included.
cudaError_t LaunchRowStep(const Step& step, const LaunchContext& context);

// kEmbedNorm of the tile path.
cudaError_t LaunchEmbedNorm(const Step& step, const LaunchContext& context);

// pooling.cu: kNormPool of the row path, kPool of the tile path.
cudaError_t LaunchNormPool(const Step& step, const LaunchContext& context);
cudaError_t LaunchPool(const Step& step, const LaunchContext& context);

// Whether LaunchContext::overlap may be set: whether the code that the runtime chose for this
// device waits for the kernel before it. That for compute capability 8.0 does not, and a GPU that
// came after this build gets that one, from PTX, whatever its own capability.
cudaError_t CanOverlap(bool& can);

// Once a device: lets the kernels have the shared memory they need, and loads them.
cudaError_t PrepareRowKernels(uint32_t tile_rows);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_ROW_KERNELS_H_
