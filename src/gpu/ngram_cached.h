// The n-gram embedding on a GPU with its tables behind a row cache: slots are resolved on the host,
// the kernels read the rows where the cache has them, in host memory that the device reaches.
#ifndef SPRAT_GPU_NGRAM_CACHED_H_
#define SPRAT_GPU_NGRAM_CACHED_H_

#include <cstdint>
#include <memory>
#include <span>

#include "gpu/device.h"
#include "gpu/ngram_path.h"
#include "ngram/ngram_config.h"
#include "ngram/ngram_hash.h"
#include "ngram/row_tables.h"
#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat::gpu {

struct UnpinHostMemory {
  void operator()(const std::byte* p) const noexcept;
};

// A vector has the bits that resident tables give it. One caller at a time.
class NgramCached {
 public:
  // Pins the arena of `tables`, whose form is kCached, for the current device. `tables` must
  // outlive this object. Errors: as NgramWeights::Load and NgramPath::Open; kDevice if the memory
  // cannot be pinned.
  static Result<std::unique_ptr<NgramCached>> Open(const NgramConfig& config,
                                                   const NgramTensors& tensors,
                                                   const RowTables& tables);

  // As NgramEmbedding::EmbedBatch, in parts that fit the arena. The slots of a part stay pinned
  // until an event says that its kernels are done. Errors: kInvalidArgument, kDevice,
  // kOutOfMemory; of the cache: kIo, kOverloaded; nothing stays pinned then.
  Result<void> Embed(std::span<const NgramPiece> pieces, std::span<const float> hidden,
                     std::span<float> out);

 private:
  NgramCached(const NgramConfig& config, const RowTables& tables);
  Result<void> Allocate();
  Result<void> EmbedPart(const NgramRequest& all, std::span<const uint32_t> ids, size_t first,
                         std::span<float> out);
  void FindRows(const RowCache::Pins& pins);

  const RowTables* tables_;
  NgramHash hash_;
  std::unique_ptr<const std::byte, UnpinHostMemory> pinned_arena_;
  const std::byte* arena_ = nullptr;  // as the device sees it
  std::unique_ptr<NgramPath> path_;
  uint32_t part_tokens_ = 0;
  Stream stream_;
  Event done_;
  PinnedBuffer row_addresses_, vectors_;
  DeviceBuffer device_addresses_, device_vectors_, workspace_;
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_CACHED_H_
