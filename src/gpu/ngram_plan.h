// How an n-gram embedding is laid out and split on a GPU: data that the host, the kernels and the
// tests share. No CUDA here.
//
//   out[t] = a E[x_t] + b R[t] . W^T      R [T, H]: the G table rows of a token side by side
//                                         W [H, H]: the G projections side by side
//
// The sum over k = 0 .. H-1 is cut into kNgramParts parts at table borders. A part is summed on the
// tensor cores, 16 products at a time, k upwards; the parts are then added in their order. Every
// kernel keeps to this, so a vector's bits do not depend on how many tokens a call has.
#ifndef SPRAT_GPU_NGRAM_PLAN_H_
#define SPRAT_GPU_NGRAM_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/plan.h"
#include "ngram/ngram_config.h"
#include "sprat/result.h"

namespace sprat::gpu {

inline constexpr uint32_t kNgramParts{4};
inline constexpr uint32_t kNgramMostOrder{8};
inline constexpr uint32_t kNgramMostTables{16};

// --- The query kernel: up to kNgramQueryTokens tokens in one launch
// ----------------------------------- A cluster of two blocks has kQueryColumns columns; each block
// has two of the parts. Its warps are kQueryWarps for each part.
inline constexpr uint32_t kNgramQueryTokens{64};
inline constexpr uint32_t kQueryColumns{48};
inline constexpr uint32_t kQueryWarps{6};
inline constexpr uint32_t kQueryThreads{2 * kQueryWarps * 32};
inline constexpr uint32_t kQueryCluster{2};
static_assert(kNgramParts == 2 * kQueryCluster);

// The projections as B operands of mma.m16n8k16, two steps of k (32) at a time: where W[n][k] is,
// in elements. Lane 4g + q holds column n = g of 8; of each step k = 2q, 2q + 1, 2q + 8, 2q + 9.
constexpr size_t FragmentOffset(size_t n, size_t k, size_t depth) {
  const size_t in_step = k % 16;
  const size_t lane = n % 8 * 4 + in_step % 8 / 2;
  const size_t element = k % 32 / 16 * 4 + in_step / 8 * 2 + in_step % 2;
  return ((n / 8 * (depth / 32) + k / 32) * 32 + lane) * 8 + element;
}

// --- The batch kernel: tiles of kBatchTokens x kBatchColumns, the projections in panels ----------
// A cluster of two blocks has two tiles of the same columns, and brings their projections to both.
// In panels (plan.h) the projections are K-major operands of wgmma, padded to whole tiles.
inline constexpr uint32_t kBatchTokens{128};
inline constexpr uint32_t kBatchColumns{192};
inline constexpr uint32_t kBatchCluster{2};
// Rows of the panels into which the batch kernel gathers: whole tiles of a cluster.
constexpr uint32_t BatchCapacity(uint32_t tokens) {
  constexpr uint32_t kTokens{kBatchTokens * kBatchCluster};
  return (tokens + kTokens - 1) / kTokens * kTokens;
}

// The blocks of the batch kernel gather units of tokens, in order, up to kMostUnits at a time; the
// rows of a group of tokens, those of a cluster's tiles, are there when all its units are finished.
inline constexpr uint32_t kUnitTokens{4};
inline constexpr uint32_t kMostUnits{3};
inline constexpr uint32_t kGroupTokens{kBatchTokens * kBatchCluster};
static_assert(kGroupTokens % kUnitTokens == 0);
constexpr uint32_t GatherUnitsOf(uint32_t tokens) {
  return (tokens + kUnitTokens - 1) / kUnitTokens;
}
// Units that tiles 0 .. last of the clusters need; tiles are counted along the columns first.
constexpr uint32_t UnitsFor(uint32_t last_tile, uint32_t column_tiles) {
  return (last_tile / column_tiles + 1) * (kGroupTokens / kUnitTokens);
}
// The workspace of the batch kernel: the panels, then counters of 4 bytes: the queue, and the
// finished units of each group.
constexpr size_t BatchCounters(uint32_t tokens) { return 1 + BatchCapacity(tokens) / kGroupTokens; }
constexpr size_t BatchWorkspaceBytes(uint32_t tokens, uint32_t hidden) {
  return size_t{BatchCapacity(tokens)} * hidden * 2 + (BatchCounters(tokens) * 4 + 15) / 16 * 16;
}

// --- The split kernel: up to kSplitTokens tokens in one launch -----------------------------------
// Reads tiles of the projections of other numbers of columns from the panels, at most kSplitColumns
// past their end.
inline constexpr uint32_t kSplitTokens{256};
inline constexpr uint32_t kSplitColumns{208};

struct NgramPlan {
  uint32_t vocabulary = 0;  // V
  uint32_t hidden = 0;      // H
  uint32_t tables = 0;      // G
  uint32_t width = 0;       // d, a multiple of kPanel
  uint32_t order = 0;       // N
  float word_scale = 1;     // a
  float sum_scale = 1;      // b
  bool wide_sums = false;   // the hash's sums need integer division

  // Tables first .. first of the next part; p <= kNgramParts.
  constexpr uint32_t PartBegin(uint32_t p) const { return p * tables / kNgramParts; }
  constexpr uint32_t FragmentColumns() const {
    return (hidden + kQueryColumns - 1) / kQueryColumns * kQueryColumns;
  }
  constexpr uint32_t PanelColumns() const {
    return (hidden + kBatchColumns - 1) / kBatchColumns * kBatchColumns;
  }
  constexpr uint32_t MostTablesOfBlock() const {
    const uint32_t first = PartBegin(2);
    return first > tables - first ? first : tables - first;
  }
  // Shared memory of the query kernel for 16, 32 or 64 tokens: the rows, each 16 bytes longer than
  // its bf16 values so that eight of them fall into different banks, and later a part's sums in
  // their place; the sums of the other block; where the rows and their scales are.
  constexpr uint32_t QueryRowBytes() const { return MostTablesOfBlock() * width * 2 + 16; }
  constexpr uint32_t QueryRowsBytes(uint32_t tokens) const {
    const uint32_t row_bytes = QueryRowBytes();
    return tokens * (row_bytes > kQueryColumns * 4 ? row_bytes : kQueryColumns * 4);
  }
  constexpr uint32_t QuerySharedBytes(uint32_t tokens) const {
    return QueryRowsBytes(tokens) + tokens * (kQueryColumns * 4 + MostTablesOfBlock() * 16);
  }
  // The most tokens of one query: 64, fewer if the rows are too long, 0 if not even 16 fit.
  uint32_t MostQueryTokens() const;
};

// What the hash and the gather know of one table, in device memory.
struct alignas(16) NgramTableEntry {
  uint64_t modulus = 1;                      // M_i
  double inverse = 1;                        // 1 / M_i
  const std::byte* rows = nullptr;           // row i at rows + i * row bytes
  const float* scales = nullptr;             // of E4M3 rows; nullptr: `scale` for all
  float scale = 1;                           //
  uint32_t power[kNgramMostOrder - 1] = {};  // V^s mod M_i at s - 1; 0 for s >= the table's order
};
static_assert(sizeof(NgramTableEntry) == 64);

// Errors: kUnsupported naming the value: a width that is not a multiple of kPanel, an order above
// kNgramMostOrder, more than kNgramMostTables tables.
Result<NgramPlan> MakeNgramPlan(const NgramConfig& config);

// The G entries, without addresses and scales.
std::vector<NgramTableEntry> MakeTableEntries(const NgramConfig& config);

// The tokens at which the look-back stops, as ranges that neither touch nor overlap, in order.
std::vector<TokenRange> MakeStops(const NgramConfig& config);

// W [H, H] of bf16, row-major, in the order of FragmentOffset, FragmentColumns() columns, or in
// panels of PanelColumns() columns and kSplitColumns more after the last; padding is zero.
std::vector<uint16_t> PackFragments(const NgramPlan& plan, const std::vector<uint16_t>& weights);
std::vector<uint16_t> PackPanels(const NgramPlan& plan, const std::vector<uint16_t>& weights);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_PLAN_H_
