// The n-gram embedding on an NVIDIA GPU. In a build without CUDA opening one is an error that says
// so. docs/ngram.md has what it needs and how fast it is. Standard library only.
#ifndef SPRAT_NGRAM_GPU_H_
#define SPRAT_NGRAM_GPU_H_

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat {

// A model's n-gram embedding with its tables in a GPU's memory, or behind the row cache, whose
// arena the GPU then reads. One caller at a time. Movable.
class NgramGpu {
 public:
  // Opens `directory` as NgramEmbedding::Open does, on GPU `device` as CUDA numbers them: BF16
  // tables, or E4M3 ones (stored so, or NgramTables::kFp8). It makes no difference whether the
  // options say mapped or resident.
  // Errors: those of NgramEmbedding::Open; kDevice if the build has no CUDA or there is no such
  // device, or if the arena cannot be pinned; kUnsupported for a device or model that the kernels
  // do not do, naming what was found; kOutOfMemory.
  static Result<NgramGpu> Open(const std::filesystem::path& directory, const NgramOptions& options,
                               int device);

  NgramGpu(NgramGpu&&) noexcept;
  NgramGpu& operator=(NgramGpu&&) noexcept;
  ~NgramGpu();

  // As NgramEmbedding::EmbedBatch, from host memory to host memory; results are rounded to bf16.
  // A vector's bits do not depend on the batch. Errors: kInvalidArgument, kDevice, kOutOfMemory.
  Result<void> EmbedBatch(std::span<const NgramPiece> pieces, std::span<const float> word,
                          std::span<float> out);

  // `threads` is 0, `kernels` "cuda".
  const NgramInfo& info() const;
  const std::string& device_name() const;  // "NVIDIA H200, compute capability 9.0"

 private:
  class Impl;
  explicit NgramGpu(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_GPU_H_
