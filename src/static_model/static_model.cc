#include "static_model/static_model.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/cpu_budget.h"
#include "base/float_mode.h"
#include "kernels/dispatch.h"

namespace sprat {
namespace {

// Below this many tokens a batch is done before another thread could be woken.
constexpr size_t kTokensWorthAThread{4096};

RowType RowTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return RowType::kF16;
    case DType::kI8:
      return RowType::kI8;
    default:
      return RowType::kF32;
  }
}

}  // namespace

Result<std::unique_ptr<StaticModel>> StaticModel::Create(StaticTables tables,
                                                         std::optional<size_t> max_sequence,
                                                         size_t threads) {
  Result<const Kernels*> kernels = ActiveKernels();
  if (!kernels.ok()) return std::move(kernels.error());
  Result<std::unique_ptr<ThreadPool>> pool =
      ThreadPool::Create(threads == 0 ? CpuBudget() : threads);
  if (!pool.ok()) return std::move(pool.error());
  return std::unique_ptr<StaticModel>(
      new StaticModel(std::move(tables), max_sequence.value_or(std::numeric_limits<size_t>::max()),
                      *kernels.value(), std::move(pool).value()));
}

StaticModel::StaticModel(StaticTables tables, size_t max_sequence, const Kernels& kernels,
                         std::unique_ptr<ThreadPool> pool)
    : tables_(std::move(tables)),
      max_sequence_(max_sequence),
      kernels_(kernels),
      pool_(std::move(pool)),
      scratch_(pool_->size()) {}

size_t StaticModel::weight_bytes() const {
  return tables_.embeddings.bytes.size() + tables_.mapping.size() * sizeof(uint32_t) +
         tables_.weights.size() * sizeof(float);
}

Result<void> StaticModel::CheckIds(std::span<const uint32_t> ids) const {
  if (ids.size() > max_sequence_) {
    return Error(
        ErrorCode::kInvalidArgument,
        std::to_string(ids.size()) + " tokens, expected at most " + std::to_string(max_sequence_));
  }
  const uint32_t largest = ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end());
  if (ids.empty() || largest < tables_.tokens()) return {};
  return Error(ErrorCode::kInvalidArgument, "token id " + std::to_string(largest) +
                                                ", expected less than " +
                                                std::to_string(tables_.tokens()));
}

Result<void> StaticModel::Embed(const TokenBatch& batch, const OutputForm& form,
                                MatrixView<float> out) {
  CHECK(out.rows == batch.sequences() && out.columns >= 1 && out.columns <= dimensions());
  for (size_t i = 0; i < batch.sequences(); ++i) {
    Result<void> checked = CheckIds(batch.Sequence(i));
    if (!checked.ok()) return std::move(checked.error()).In("sequence " + std::to_string(i));
  }
  const auto embed_share = [&](size_t rank, size_t size) {
    const Share share = ShareOf(batch.sequences(), rank, size);
    for (size_t i = share.begin; i < share.end; ++i) {
      EmbedSequence(batch.Sequence(i), form, scratch_[rank], out.RowSpan(i));
    }
  };
  if (batch.tokens.size() < kTokensWorthAThread) {
    const ScopedFlushToZero flush;  // as the pool's threads
    embed_share(0, 1);
  } else {
    pool_->Run([&](size_t rank, Team& team) { embed_share(rank, team.size()); });
  }
  return {};
}

Result<void> StaticModel::EmbedOne(std::span<const uint32_t> ids, const OutputForm& form,
                                   Scratch& scratch, std::span<float> out) const {
  CHECK(!out.empty() && out.size() <= dimensions());
  Result<void> checked = CheckIds(ids);
  if (checked.ok()) EmbedSequence(ids, form, scratch, out);
  return checked;
}

Result<void> StaticModel::EmbedEachToken(const TokenBatch& batch, MatrixView<float> out) {
  CHECK(out.rows == batch.tokens.size() && out.columns == dimensions());
  for (size_t i = 0; i < batch.sequences(); ++i) {
    Result<void> checked = CheckIds(batch.Sequence(i));
    if (!checked.ok()) return std::move(checked.error()).In("sequence " + std::to_string(i));
  }
  const ScopedFlushToZero flush;
  for (size_t t = 0; t < out.rows; ++t) {
    EmbedSequence(std::span(&batch.tokens[t], 1), {.normalize = false}, scratch_[0],
                  out.RowSpan(t));
  }
  return {};
}

// out = normalise((1 / n) sum_t weights[id_t] * embeddings[mapping[id_t]])
void StaticModel::EmbedSequence(std::span<const uint32_t> ids, const OutputForm& form,
                                Scratch& scratch, std::span<float> out) const {
  if (ids.empty()) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const uint32_t* rows = ids.data();
  if (!tables_.mapping.empty()) {
    scratch.rows.resize(std::max(scratch.rows.size(), ids.size()));
    for (size_t t = 0; t < ids.size(); ++t) scratch.rows[t] = tables_.mapping[ids[t]];
    rows = scratch.rows.data();
  }
  const float* weights = nullptr;
  if (!tables_.weights.empty()) {
    // By the original id: tokens that share a row keep their own weight.
    scratch.weights.resize(std::max(scratch.weights.size(), ids.size()));
    for (size_t t = 0; t < ids.size(); ++t) scratch.weights[t] = tables_.weights[ids[t]];
    weights = scratch.weights.data();
  }
  kernels_.gather_rows({.table = tables_.embeddings.bytes.data(),
                        .type = RowTypeOf(tables_.embeddings.dtype),
                        .stride = tables_.dimensions(),
                        .rows = rows,
                        .weights = weights,
                        .count = ids.size(),
                        .columns = out.size(),
                        .scale = 1.0f / static_cast<float>(ids.size()),
                        .out = out.data()});
  if (form.normalize) kernels_.l2_normalize(out.data(), out.size());
}

}  // namespace sprat
