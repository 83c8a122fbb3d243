// The encoder on an NVIDIA GPU, for whoever opens a model. No CUDA in this header: in a build
// without nvcc the same functions answer that there is none.
#ifndef SPRAT_GPU_GPU_ENCODER_H_
#define SPRAT_GPU_GPU_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/packing.h"
#include "model/config.h"
#include "model/model.h"
#include "sprat/result.h"

namespace sprat::gpu {

struct GpuOptions {
  int device = 0;  // as CUDA numbers them
  Pooling pooling = Pooling::kMean;
  uint32_t max_sequence = 0;  // tokens, special ones included; at most config.positions
};

// What was found, in one line: "NVIDIA H200, compute capability 9.0". Errors: kDevice, saying what
// is missing: the build's CUDA parts, the driver, or the device.
Result<std::string> DescribeDevice(int device);

// Where the time of one query goes, microseconds. Stages that a path does inside its kernels are 0.
struct QueryTimes {
  double prepare = 0;  // ids into pinned memory
  double enqueue = 0;  // until the launch call has returned
  double wait = 0;     // until the host knows that the vector is there
  double finish = 0;   // from pinned memory into the caller's rows
  double device = 0;   // of it, on the device: first kernel to last, by events, back to back
};

// An encoder whose weights lie on a GPU. Threads as Model says.
class GpuEncoder : public Model {
 public:
  // One call of Embed with `batch`, a single query, taken apart. `device` is the mean of `repeats`
  // launches in a row.
  virtual Result<QueryTimes> TimeQuery(const TokenBatch& batch, int repeats) = 0;

  // Seconds that the device needs for `batch`, whose sequences are of one length, mean of `repeats`
  // runs one after the other; copying the ids is part of it.
  virtual Result<double> TimeDevice(const TokenBatch& batch, int repeats) = 0;

  // Of it, for a single query, seconds that pooling and normalising add: the mean of `repeats` runs
  // with them less that of as many without.
  virtual Result<double> TimePooling(const TokenBatch& batch, int repeats) = 0;
};

// Packs the weights, copies them to the device and gets everything ready, so that the first query
// takes no longer than the next. Errors: kUnsupported (PackWeights), kInvalidArgument (a maximum
// length out of range), kDevice, kOutOfMemory; nothing stays allocated then.
Result<std::unique_ptr<GpuEncoder>> OpenGpuEncoder(const EncoderConfig& config,
                                                   const ReadTensor& read,
                                                   const GpuOptions& options);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_GPU_ENCODER_H_
