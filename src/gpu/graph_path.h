// The graph path: a batch as a chain of kernels that walks PlanSteps. A query (one sequence) runs
// as a CUDA graph captured when the model is opened, one for each bucket of tokens; other batches
// are launched step by step.
#ifndef SPRAT_GPU_GRAPH_PATH_H_
#define SPRAT_GPU_GRAPH_PATH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/gpu_encoder.h"
#include "gpu/request.h"
#include "gpu/row_kernels.h"

namespace sprat::gpu {

class GraphPath final : public GpuEncoder {
 public:
  static Result<std::unique_ptr<GraphPath>> Open(const EncoderConfig& config,
                                                 const ReadTensor& read, const GpuOptions& options);

  Result<void> Embed(const TokenBatch& batch, const OutputForm& form,
                     MatrixView<float> out) override;
  Result<QueryTimes> TimeQuery(const TokenBatch& batch, int repeats) override;
  Result<double> TimeDevice(const TokenBatch& batch, int repeats) override;
  Result<double> TimePooling(const TokenBatch& batch, int repeats) override;

  size_t dimensions() const override { return kHidden; }
  size_t vocabulary_rows() const override { return weights_layout_.vocabulary; }
  size_t max_sequence() const override { return options_.max_sequence; }
  std::string arithmetic() const override { return "gpu-batch-f16"; }
  size_t weight_bytes() const override { return weights_layout_.Bytes(); }

  // For tests and measurements: which path a piece of `tokens` tokens takes. The bits are the same.
  Path PathOf(uint32_t tokens) const;
  void ForcePath(Path path) { forced_ = path; }

 private:
  // What one piece needs on the host's side; two, so that one is filled while the other is
  // computed.
  struct Slot {
    PinnedBuffer request;
    PinnedBuffer result;
    Event done;
  };

  GraphPath(const EncoderConfig& config, const GpuOptions& options);
  Result<void> LoadWeights(const EncoderConfig& config, const ReadTensor& read);
  Result<void> AllocateWorkSpace();
  // The graph of a bucket, without its last `left_out` kernels.
  Result<GraphExec> CaptureGraph(uint32_t bucket, size_t left_out);
  Result<void> CaptureGraphs();
  Result<void> CheckBatch(const TokenBatch& batch, MatrixView<float> out) const;
  bool IsQuery(const TokenBatch& batch, const Piece& piece) const;
  LaunchContext Context(const Slot& slot, const RequestLayout& layout) const;
  Result<void> LaunchSteps(const LaunchContext& context, Path path, size_t left_out = 0);
  template <typename Call>
  Result<double> MeanSeconds(int repeats, const Call& enqueue);
  // Writes the request and enqueues everything up to the slot's event.
  Result<void> Enqueue(const TokenBatch& batch, const Piece& piece, const ResultForm& form,
                       Slot& slot);
  Result<void> EnqueueQuery(const TokenBatch& batch, const Piece& piece, const ResultForm& form);
  Result<void> Repeat(const TokenBatch& batch);
  Result<void> Collect(const Piece& piece, const Slot& slot, MatrixView<float> out);

  GpuOptions options_;
  WeightLayout weights_layout_;
  uint32_t layers_;
  float eps_;
  uint32_t capacity_ = kPieceTokens;
  uint32_t tile_rows_ = 16;
  bool has_wgmma_ = false;
  bool overlap_ = false;
  std::optional<Path> forced_;

  Stream stream_;
  DeviceBuffer weights_;
  DeviceBuffer work_space_;
  Buffers buffers_ = {};
  Slot slots_[2];
  std::map<uint32_t, GraphExec> graphs_;  // by bucket
  std::vector<Piece> pieces_;
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_GRAPH_PATH_H_
