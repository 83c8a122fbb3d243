// The kernels of the n-gram embedding, as the host launches them. See ngram_plan.h.
#ifndef SPRAT_GPU_NGRAM_KERNELS_H_
#define SPRAT_GPU_NGRAM_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/ngram_view.h"

namespace sprat::gpu {

// Each enqueues its kernel. `out` is T x H bf16.
//   overlap: the kernel may start before the one before it in the stream is done; it waits for it
//     before it reads the request.
// All for compute capability 9.0. Query: request.tokens <= plan.MostQueryTokens().
cudaError_t LaunchNgramIds(const NgramModelView& model, const NgramRequest& request, uint32_t* ids,
                           cudaStream_t stream);  // ids: T x G
cudaError_t LaunchNgramQuery(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream);
cudaError_t LaunchNgramSplit(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream);
cudaError_t LaunchNgramBatch(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_KERNELS_H_
