// The n-gram embedding on a GPU, from token ids to vectors in one launch.
#ifndef SPRAT_GPU_NGRAM_PATH_H_
#define SPRAT_GPU_NGRAM_PATH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "gpu/ngram_graphs.h"
#include "gpu/ngram_kernels.h"
#include "gpu/ngram_weights.h"
#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat::gpu {

// to[i] = from[i], bf16, exactly.
void Widen(const uint16_t* from, std::span<float> to);

enum class NgramKernel : uint8_t {
  kQuery,  // up to NgramPlan::MostQueryTokens tokens: bound by reading the projections
  kSplit,  // any number: the sum over k is split over blocks; for too few tiles to fill a GPU
  kBatch,  // any number: tiles on the tensor cores
};

// One model on one device. A vector depends on its token and the N - 1 before it, to the bit,
// whatever kernel computes it and whatever else is in the batch.
// Numerics: bf16 rows (E4M3 rows times their scale, rounded) and projections, f32 sums in the order
// of ngram_plan.h, bf16 results.
class NgramPath {
 public:
  // Of the current device. Errors: kUnsupported unless its compute capability is 9.0.
  static Result<std::unique_ptr<NgramPath>> Open(NgramWeights weights);

  // Enqueues the vectors of a batch that is in device memory: out is T x H bf16 in device memory.
  // Any thread, any stream. Tokens are not checked.
  //   overlap: see ngram_kernels.h.
  // Errors: kInvalidArgument if there are neither word rows nor hidden rows, or no workspace where
  // one is needed; kDevice.
  Result<void> Enqueue(const NgramRequest& request, uint16_t* out, cudaStream_t stream,
                       bool overlap = false) const;

  // Of NgramRequest::workspace; 0 if none is needed. (A request with `rows` needs
  // BatchWorkspaceBytes.)
  size_t WorkspaceBytes(uint32_t tokens) const;

  // As NgramEmbedding::Ids and ::EmbedBatch, from host memory to host memory; one caller at a time.
  // Up to NgramGraphs::kMostTokens tokens with the model's word rows are one launch of a graph.
  //   hidden: T x H in place of the model's word rows, rounded to bf16; or empty.
  Result<void> Ids(std::span<const NgramPiece> pieces, std::span<uint32_t> ids);
  Result<void> Embed(std::span<const NgramPiece> pieces, std::span<const float> hidden,
                     std::span<float> out);

  // Brings a batch into device memory, as Embed does, for Enqueue; valid until the next call of
  // Embed, Ids or Send. `values`: of the vectors that are to come. Errors: as Embed.
  Result<NgramRequest> Send(std::span<const NgramPiece> pieces, std::span<const float> hidden,
                            size_t values);

  NgramKernel KernelOf(uint32_t tokens) const;
  // For tests and measurements. Where the query kernel cannot: the split kernel.
  void ForceKernel(std::optional<NgramKernel> kernel) {
    forced_ = kernel;
    graphs_.Clear();
  }

  const NgramPlan& plan() const { return view_.plan; }
  const NgramModelView& view() const { return view_; }

 private:
  explicit NgramPath(NgramWeights weights);
  // Tokens and places of a batch in host memory, checked.
  struct Batch {
    std::vector<uint32_t> stream, at;
  };
  Result<Batch> LayOut(std::span<const NgramPiece> pieces) const;
  Result<NgramRequest> Send(const Batch& batch, std::span<const float> hidden);
  Result<void> EmbedByGraph(const Batch& batch, std::span<float> out);

  NgramWeights weights_;
  NgramModelView view_;
  std::optional<NgramKernel> forced_;
  Stream stream_;
  DeviceBuffer tokens_, hidden_;  // of the last call of Ids or Embed
  NgramGraphs graphs_;
  DeviceBuffer graph_workspace_;  // of the largest bucket, where a forced kernel needs one
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_PATH_H_
