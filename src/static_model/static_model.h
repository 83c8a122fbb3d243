// Model2Vec: a token look-up, a mean, a norm.
// Source: MinishLab/model2vec 0.10.0 (StaticModel.encode), which decides; the differences of
// sentence-transformers' StaticEmbedding are a switch.
#ifndef SPRAT_STATIC_MODEL_STATIC_MODEL_H_
#define SPRAT_STATIC_MODEL_STATIC_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/safetensors.h"

namespace sprat {

// The tensors of a static model, checked, with the table left where it is mapped.
struct StaticTables {
  TensorFile file;                // keeps the mapping of `embeddings`
  Tensor embeddings;              // (rows, dimensions), F32, F16 or I8
  std::vector<uint32_t> mapping;  // token id -> row; empty: the id is the row
  std::vector<float> weights;     // token id -> factor; empty: all 1

  size_t rows() const { return embeddings.shape[0]; }
  size_t dimensions() const { return embeddings.shape[1]; }
  size_t tokens() const { return mapping.empty() ? rows() : mapping.size(); }
};

// Takes `embeddings` (also found as `embedding.weight` or `0`), `weights` (F64, F32, F16) and
// `mapping` (I64, I32) from an opened file. Reads `weights` and `mapping`, not the table.
// Errors: kCorrupt naming file, tensor, what was found and what was expected: a rank, a type, a
// length, a mapping beyond the rows.
Result<StaticTables> ReadStaticTables(TensorFile file);

// True if a checkpoint holds the table of a static model.
bool HoldsStaticTable(const TensorFile& file);

// out = (1 / n) sum_t weights[id_t] * embeddings[mapping[id_t]] over the n ids of a sequence; zeros
// for an empty one; then normalised if asked. Sums in f32 whatever the table's type, in the order
// of the tokens: |error| <= (n + 2) 2^-24 (1 / n) sum_t |weights[id_t] embeddings[mapping[id_t]]|.
// An I8 table is used as integers: it carries no scale, so only directions are meaningful.
class StaticModel final : public Model {
 public:
  //   max_sequence: tokens in one sequence; nullopt: no limit.
  //   threads: 0: CpuBudget().
  // Errors: those of ActiveKernels and ThreadPool::Create.
  static Result<std::unique_ptr<StaticModel>> Create(StaticTables tables,
                                                     std::optional<size_t> max_sequence,
                                                     size_t threads);

  Result<void> Embed(const TokenBatch& batch, const OutputForm& form,
                     MatrixView<float> out) override;
  // The row of each token times its weight.
  Result<void> EmbedEachToken(const TokenBatch& batch, MatrixView<float> out) override;

  // Rows and factors of the ids of one sequence; reused.
  struct Scratch {
    std::vector<uint32_t> rows;
    std::vector<float> weights;
  };

  // One sequence, into out.size() columns, as Embed does it, by the calling thread, which is to be
  // in the mode of ScopedFlushToZero. Threads: any number at once, each with its own scratch.
  Result<void> EmbedOne(std::span<const uint32_t> ids, const OutputForm& form, Scratch& scratch,
                        std::span<float> out) const;

  size_t dimensions() const override { return tables_.dimensions(); }
  size_t vocabulary_rows() const override { return tables_.tokens(); }
  size_t max_sequence() const override { return max_sequence_; }
  std::string arithmetic() const override { return "cpu-f32"; }
  ThreadPool* pool() override { return pool_.get(); }
  size_t weight_bytes() const override;

  const StaticTables& tables() const { return tables_; }
  const Kernels& kernels() const { return kernels_; }
  size_t threads() const { return pool_->size(); }

 private:
  StaticModel(StaticTables tables, size_t max_sequence, const Kernels& kernels,
              std::unique_ptr<ThreadPool> pool);
  Result<void> CheckIds(std::span<const uint32_t> ids) const;
  void EmbedSequence(std::span<const uint32_t> ids, const OutputForm& form, Scratch& scratch,
                     std::span<float> out) const;

  StaticTables tables_;
  size_t max_sequence_;
  const Kernels& kernels_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<Scratch> scratch_;  // one a thread
};

}  // namespace sprat

#endif  // SPRAT_STATIC_MODEL_STATIC_MODEL_H_
