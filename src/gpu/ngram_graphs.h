// Small batches of the n-gram embedding from host memory to host memory, as captured CUDA graphs.
#ifndef SPRAT_GPU_NGRAM_GRAPHS_H_
#define SPRAT_GPU_NGRAM_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "gpu/device.h"
#include "gpu/ngram_view.h"
#include "sprat/result.h"

namespace sprat::gpu {

// One graph for each bucket of tokens: the batch's tokens to the device, the kernels, the vectors
// back. A batch is padded to its bucket with copies of its first token; a vector does not depend on
// what else is in a batch. Graphs are captured when they are first needed. One caller at a time.
class NgramGraphs {
 public:
  static constexpr uint32_t kMostTokens{256};

  // Enqueues the kernels of a request: NgramPath::Enqueue.
  using EnqueueKernels =
      std::function<Result<void>(const NgramRequest& request, uint16_t* out, cudaStream_t stream)>;

  // The least power of two that is not below `tokens`.
  static constexpr uint32_t BucketOf(uint32_t tokens) {
    uint32_t bucket = 1;
    while (bucket < tokens) bucket *= 2;
    return bucket;
  }

  // order, hidden: N and H. Buffers are allocated with the first call of Run.
  NgramGraphs(uint32_t order, uint32_t hidden) : order_(order), hidden_(hidden) {}

  // The vectors of a batch of 1 .. kMostTokens tokens, T x H bf16, valid until the next call. Waits
  // for them.
  //   stream, at: as NgramRequest has them, in host memory; at most N tokens of stream a token.
  Result<const uint16_t*> Run(std::span<const uint32_t> stream, std::span<const uint32_t> at,
                              const EnqueueKernels& enqueue, cudaStream_t queue);

  // For whoever changes what `enqueue` does.
  void Clear() { graphs_.clear(); }

 private:
  Result<void> Allocate();
  Result<void> Capture(uint32_t bucket, const EnqueueKernels& enqueue, cudaStream_t queue);
  Result<void> EnqueueAll(uint32_t bucket, const EnqueueKernels& enqueue, cudaStream_t queue);
  // A bucket's request: `at`, then `stream`.
  size_t RequestWords(uint32_t bucket) const { return size_t{bucket} * (1 + order_); }

  uint32_t order_, hidden_;
  PinnedBuffer request_, vectors_;                // on the host
  DeviceBuffer device_request_, device_vectors_;  // the same on the device
  std::map<uint32_t, GraphExec> graphs_;          // by bucket
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_GRAPHS_H_
