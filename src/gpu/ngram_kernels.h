// The kernels of the n-gram embedding, as the host launches them. See ngram_plan.h.
#ifndef SPRAT_GPU_NGRAM_KERNELS_H_
#define SPRAT_GPU_NGRAM_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/ngram_plan.h"

namespace sprat::gpu {

// A batch in device memory.
struct NgramRequest {
  // The tokens of all sequences; before the first token of each are N - 1 others: its context, or
  // the end of sequence where it has none. Every one is below V.
  const uint32_t* stream = nullptr;
  // Where the t-th token to embed is in `stream`; nullptr: at N - 1 + t.
  const uint32_t* at = nullptr;
  // T x H bf16 in place of the model's word rows, or nullptr.
  const uint16_t* hidden = nullptr;
  uint32_t tokens = 0;  // T
  // For the split and batch kernels: BatchCapacity(T) x H bf16 to work in, 16-byte aligned.
  uint16_t* workspace = nullptr;
};

// All that the kernels read of a model, in device memory.
struct NgramModelView {
  NgramPlan plan;
  bool fp8 = false;                          // rows of E4M3, not of bf16
  const NgramTableEntry* entries = nullptr;  // G
  const TokenRange* stops = nullptr;
  uint32_t stop_ranges = 0;
  const uint16_t* word = nullptr;       // E [V, H] bf16; nullptr: every request brings `hidden`
  const uint16_t* fragments = nullptr;  // FragmentOffset
  const uint16_t* panels = nullptr;     // PanelOffset, PanelColumns() rows
};

// Each enqueues its kernel. `out` is T x H bf16.
//   overlap: the kernel may start before the one before it in the stream is done; it waits for it
//     before it reads the request.
// All for compute capability 9.0. Query: request.tokens <= plan.MostQueryTokens().
cudaError_t LaunchNgramIds(const NgramModelView& model, const NgramRequest& request, uint32_t* ids,
                           cudaStream_t stream);  // ids: T x G
// Gathers into request.workspace, in panels of BatchCapacity(T) rows; split and batch begin with
// it.
cudaError_t LaunchNgramGather(const NgramModelView& model, const NgramRequest& request,
                              bool overlap, cudaStream_t stream);
cudaError_t LaunchNgramQuery(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream);
cudaError_t LaunchNgramSplit(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream);
cudaError_t LaunchNgramBatch(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_KERNELS_H_
