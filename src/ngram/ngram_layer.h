// The forward pass of an n-gram embedding on the CPU.
#ifndef SPRAT_NGRAM_NGRAM_LAYER_H_
#define SPRAT_NGRAM_NGRAM_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "ngram/ngram_config.h"
#include "ngram/ngram_hash.h"
#include "ngram/ngram_tensors.h"
#include "ngram/packed_projection.h"
#include "ngram/row_tables.h"
#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat {

// out(t) = a E[x_t] + b sum_i W_i T_i[id_i(t)], with a and b of the scale:
//   average       a = b = 1 / (1 + G)
//   fixed factor  a = b = 1 / sqrt(1 + G)
//   full word     a = 1, b = 1 / (1 + G)
// The tokens of a batch are hashed, their rows pinned or paged in, gathered as bf16 into (T, H),
// and projected by one matrix product with the word row and the scale in its epilogue. Numerics:
// rows and projections in bf16, products exact, sums in f32 in the order of k. Threads: any may
// call any method at any time; reading from disk overlaps, computing takes turns but for calls of a
// few microseconds, which their own threads do alone.
class NgramLayer {
 public:
  // `tensors` and `threads` must outlive this object. Errors: as RowTables::Load and
  // PackedProjection::Pack; kUnsupported for a word table that is not F32, F16 or BF16.
  static Result<std::unique_ptr<NgramLayer>> Load(const NgramConfig& config,
                                                  const NgramTensors& tensors,
                                                  const NgramOptions& options,
                                                  const NgramKernels& kernels, ThreadPool& threads);

  // See NgramEmbedding.
  Result<void> Ids(std::span<const NgramPiece> pieces, std::span<uint32_t> ids) const;
  Result<void> Embed(std::span<const NgramPiece> pieces, std::span<const float> word,
                     std::span<float> out);
  Result<void> Prefetch(std::span<const NgramPiece> pieces) const;

  const NgramConfig& config() const { return hash_.config(); }
  const RowTables& tables() const { return tables_; }
  const NgramKernels& kernels() const { return kernels_; }
  size_t resident_bytes() const { return tables_.resident_bytes() + projection_.size_bytes(); }

 private:
  // What one call works in; reused by later ones.
  struct Scratch {
    std::vector<uint32_t> tokens;  // T
    std::vector<uint32_t> ids;     // T x G
    RowCache::Pins pins;
    Buffer<uint16_t> x;  // at least as many rows as a part has, x depth, bf16
  };

  NgramLayer(const NgramConfig& config, const NgramKernels& kernels, ThreadPool& threads);
  Result<void> Check(std::span<const NgramPiece> pieces) const;
  void Hash(std::span<const NgramPiece> pieces, std::span<uint32_t> ids) const;
  Result<void> EmbedIn(Scratch& scratch, std::span<const NgramPiece> pieces,
                       std::span<const float> word, std::span<float> out);
  struct Part {
    size_t first = 0;
    size_t count = 0;
  };
  void Compute(Part part, std::span<const float> word, std::span<float> out, Scratch& scratch);
  void CopyWordRows(Part part, std::span<const float> word, std::span<float> out,
                    const Scratch& scratch) const;
  void GatherRows(Part part, Share share, Scratch& scratch) const;
  void CopyWordRow(uint32_t token, float* out) const;
  std::unique_ptr<Scratch> TakeScratch();

  NgramHash hash_;
  const NgramKernels& kernels_;
  ThreadPool& threads_;
  const Tensor* word_ = nullptr;  // E; nullptr if callers bring the word rows
  RowTables tables_;
  PackedProjection projection_;
  float word_scale_ = 1;  // a
  float sum_scale_ = 1;   // b

  std::mutex compute_;  // held while threads_ run
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;  // with mutex_
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_NGRAM_LAYER_H_
