// The layers of one short query in a single launch over a whole GPU: who computes what, from which
// bytes, in which order, as data. Every block has one role for the whole launch and all weights of
// its role in shared memory; blocks hand activations to each other through L2. As plan.h: the host
// packs by it, the kernel runs by it, the CPU twin of the tests computes by it.
#ifndef SPRAT_GPU_GRID_PLAN_H_
#define SPRAT_GPU_GRID_PLAN_H_

#include <cstddef>
#include <cstdint>

#include "gpu/plan.h"

namespace sprat::gpu::grid {

inline constexpr uint32_t kMostLayers{6};
inline constexpr uint32_t kTile{8};       // tokens of one mma: they are its narrow operand
inline constexpr uint32_t kMostTiles{2};  // of tokens
inline constexpr uint32_t kWarps{12};     // of a block
inline constexpr uint32_t kThreads{32 * kWarps};

// --- Exchanges -----------------------------------------------------------------------------------
// Activations travel as f16 in slices: 32 columns of the 8 tokens of a tile, which is what two mma
// steps read. A slice is 32 lanes of 4 words: lane 4g + q has token g, word c columns 8c + 2q and
// 8c + 2q + 1. So a lane receives its operands with one load of 16 bytes.
inline constexpr uint32_t kSlice{32};
inline constexpr uint32_t kSliceWords{128};
inline constexpr uint32_t kHiddenSlices{kHidden / kSlice};
inline constexpr uint32_t kFfnSlices{kFfn / kSlice};
static_assert(kHiddenSlices == kWarps, "a warp multiplies one slice of a row of H columns");

// The word that holds columns `column` and `column` + 1 (even, odd) of token `token` of a tile.
constexpr uint32_t SliceWord(uint32_t token, uint32_t column) {
  return (token * 4 + column % 8 / 2) * 4 + column % kSlice / 8;
}

// A word is its own flag: until it is written it is kUnset, which no pair of finite f16 is. Each
// exchange of a layer has its own memory, twice: a launch uses one copy and unsets the other, whose
// readers were part of the launch before.
inline constexpr uint32_t kUnset{0xffffffff};

enum class Exchange : uint8_t {
  kX,        // (T, H): what enters layer l, a sum before its LayerNorm; l = L is the result
  kContext,  // (T, H): what attention returns
  kY,        // (T, H): the sum after attention, before its LayerNorm
  kInner,    // (T, F): GELU of the up projection
};
constexpr uint32_t SlicesOf(Exchange exchange) {
  return exchange == Exchange::kInner ? kFfnSlices : kHiddenSlices;
}
// Where a slice lies in one copy, in words, when tokens fill `tiles` tiles.
constexpr size_t ExchangeAt(Exchange exchange, uint32_t layer, uint32_t slice, uint32_t tile,
                            uint32_t tiles) {
  constexpr uint32_t kXEnd{kHiddenSlices * (kMostLayers + 1)};
  constexpr uint32_t kContextEnd{kXEnd + kHiddenSlices * kMostLayers};
  constexpr uint32_t kYEnd{kContextEnd + kHiddenSlices * kMostLayers};
  const uint32_t first = exchange == Exchange::kX         ? 0
                         : exchange == Exchange::kContext ? kXEnd
                         : exchange == Exchange::kY       ? kContextEnd
                                                          : kYEnd;
  const size_t at = first + size_t{layer} * SlicesOf(exchange) + slice;
  return (at * tiles + tile) * kSliceWords;
}
inline constexpr uint32_t kExchangeSlices{kHiddenSlices * (3 * kMostLayers + 1) +
                                          kFfnSlices * kMostLayers};
constexpr size_t ExchangeWords(uint32_t tiles) {
  return size_t{kExchangeSlices} * tiles * kSliceWords;
}

// --- Roles ---------------------------------------------------------------------------------------
enum class Role : uint8_t {
  kAttention,  // one head: query, key, value, softmax, context; every third layer
  kOutput,     // 16 columns of both products that end a sublayer, and their residual; three layers
  kUp,         // 32 columns of the up projection with GELU; every layer
};
inline constexpr uint32_t kAttentionGroups{3};
inline constexpr uint32_t kOutputLayers{3};
inline constexpr uint32_t kOutputColumns{16};
inline constexpr uint32_t kUpColumns{32};
inline constexpr uint32_t kAttentionBlocks{kHeads * kAttentionGroups};
inline constexpr uint32_t kOutputBlocks{kHidden / kOutputColumns * (kMostLayers / kOutputLayers)};
inline constexpr uint32_t kUpBlocks{kFfn / kUpColumns};
inline constexpr uint32_t kBlocks{kAttentionBlocks + kOutputBlocks + kUpBlocks};
static_assert(kBlocks == 132, "a block for every multiprocessor of an H100 or H200");

// What block `block` does: `part` is the head or the strip of columns, and it computes the layers
// Layer(stage) for stage = 0, 1, ... below the number of layers.
struct Assignment {
  Role role;
  uint32_t part;
  uint32_t group;

  constexpr uint32_t Stages() const {
    return role == Role::kAttention ? kMostLayers / kAttentionGroups
           : role == Role::kOutput  ? kOutputLayers
                                    : kMostLayers;
  }
  constexpr uint32_t Layer(uint32_t stage) const {
    return role == Role::kAttention ? group + kAttentionGroups * stage
           : role == Role::kOutput  ? group * kOutputLayers + stage
                                    : stage;
  }
};
constexpr Assignment AssignmentOf(uint32_t block) {
  if (block < kAttentionBlocks) {
    return {Role::kAttention, block / kAttentionGroups, block % kAttentionGroups};
  }
  block -= kAttentionBlocks;
  constexpr uint32_t kGroups{kMostLayers / kOutputLayers};
  if (block < kOutputBlocks) return {Role::kOutput, block / kGroups, block % kGroups};
  return {Role::kUp, block - kOutputBlocks, 0};
}

// --- Weights -------------------------------------------------------------------------------------
// Weights are the 16-row operand of an mma: a fragment is 16 rows x 16 columns of f16, 32 lanes of
// 16 bytes. Where element (row, column) lies in it, in elements:
constexpr uint32_t FragmentOffset(uint32_t row, uint32_t column) {
  const uint32_t lane = row % 8 * 4 + column % 8 / 2;
  return lane * 8 + (column / 8 * 2 + row / 8) * 2 + column % 2;
}
inline constexpr uint32_t kFragment{16};
inline constexpr uint32_t kFragmentBytes{2 * kFragment * kFragment};

// A product of a block: the warps form `groups`, each with `tiles` x 16 rows of the matrix; in a
// group, each has `steps` x 16 of the columns. A warp's fragments follow each other, rows outside,
// columns inside.
struct Product {
  uint32_t groups;
  uint32_t tiles;
  uint32_t steps;

  constexpr uint32_t Splits() const { return kWarps / groups; }  // warps that share rows
  constexpr uint32_t Tile(uint32_t warp, uint32_t tile) const {
    return warp / Splits() * tiles + tile;
  }
  constexpr uint32_t Step(uint32_t warp, uint32_t step) const {
    return warp % Splits() * steps + step;
  }
  constexpr uint32_t FragmentAt(uint32_t warp, uint32_t tile, uint32_t step) const {
    return (warp * tiles + tile) * steps + step;
  }
  constexpr uint32_t Fragments() const { return kWarps * tiles * steps; }
  constexpr uint32_t Rows() const { return groups * tiles * kFragment; }
  constexpr uint32_t Columns() const { return Splits() * steps * kFragment; }
};
inline constexpr Product kQkvProduct{.groups = 3, .tiles = 2, .steps = 6};  // query, key, value
inline constexpr Product kOutProduct{.groups = 1, .tiles = 1, .steps = 2};
inline constexpr Product kUpProduct{.groups = 1, .tiles = 2, .steps = 2};
inline constexpr Product kDownProduct{.groups = 1, .tiles = 1, .steps = 8};
static_assert(kQkvProduct.Rows() == 3 * kHead && kOutProduct.Rows() == kOutputColumns &&
              kUpProduct.Rows() == kUpColumns && kDownProduct.Rows() == kOutputColumns);
static_assert(kQkvProduct.Columns() == kHidden && kOutProduct.Columns() == kHidden &&
              kUpProduct.Columns() == kHidden && kDownProduct.Columns() == kFfn);

// LayerNorm is folded into the product that reads it: with W' = W diag(gamma) and mean, scale of a
// token, LN(x) W^T + b = scale (x W'^T - mean s) + c, s the row sums of W' as rounded to f16 and
// c = W beta + b. The query is multiplied by log2(e) / sqrt(D) as well, for a softmax of powers of
// two. A row of such a product has {s, c}, a column of kOutput {bias, gamma, beta} for each of its
// two products: gamma and beta of the LayerNorm that the residual goes through.
struct FoldedRow {
  float sum;
  float bias;
};
struct ResidualColumn {
  float bias;
  float gamma;
  float beta;
  float unused;
};

// One layer's weights of a block: fragments (kOutput: of the out, then of the down projection),
// then the rows' or columns' constants.
constexpr uint32_t StageFragments(Role role) {
  return role == Role::kAttention ? kQkvProduct.Fragments()
         : role == Role::kUp      ? kUpProduct.Fragments()
                                  : kOutProduct.Fragments() + kDownProduct.Fragments();
}
constexpr uint32_t StageConstantsAt(Role role) { return StageFragments(role) * kFragmentBytes; }
constexpr uint32_t StageBytes(Role role) {
  const size_t constants = role == Role::kAttention ? 3 * kHead * sizeof(FoldedRow)
                           : role == Role::kUp      ? kUpColumns * sizeof(FoldedRow)
                                                    : 2 * kOutputColumns * sizeof(ResidualColumn);
  return StageConstantsAt(role) + static_cast<uint32_t>(constants);
}
// Of all stages of a block, and the distance from one block's weights to the next one's.
constexpr uint32_t BlockBytes(Role role) {
  return StageBytes(role) * Assignment{role, 0, 0}.Stages();
}
inline constexpr uint32_t kBlockStride{BlockBytes(Role::kOutput)};
static_assert(kBlockStride >= BlockBytes(Role::kAttention) &&
              kBlockStride >= BlockBytes(Role::kUp) && StageBytes(Role::kOutput) % 16 == 0);

// Where a stage of a block begins, in bytes.
constexpr size_t StageAt(uint32_t block, uint32_t stage) {
  return size_t{block} * kBlockStride + size_t{stage} * StageBytes(AssignmentOf(block).role);
}
inline constexpr size_t kWeightBytes{size_t{kBlocks} * kBlockStride};

// --- The order of additions ----------------------------------------------------------------------
// Of one warp's product: even steps into one accumulator, odd steps into another, then their sum.
// Of the partial sums of the warps that share rows, and of the slices' shares of a token's sum and
// sum of squares: every fourth into one sum, from the left, then their sum in pairs.
template <uint32_t kCount>
constexpr float SumPartials(const float (&p)[kCount]) {
  static_assert(kCount % 4 == 0);
  float chains[4] = {p[0], p[1], p[2], p[3]};
  for (uint32_t i = 4; i < kCount; ++i) chains[i % 4] += p[i];
  return (chains[0] + chains[1]) + (chains[2] + chains[3]);
}

// --- Shared memory -------------------------------------------------------------------------------
// After the weights, in this order; places in bytes.
struct SharedLayout {
  uint32_t slices;      // kAttention: what the warps received, [slice][tile of tokens]
  uint32_t partials;    // pairs of f32: [buffer][warp][tile of rows][tile of tokens][half][lane]
  uint32_t statistics;  // {sum, sum of squares}: [buffer][warp][token]
  uint32_t operands;    // kAttention: q, k, v as [part][tile][chunk of 8][lane] words
  uint32_t barriers;    // one a stage
  uint32_t bytes;
};
constexpr uint32_t PartialTiles(Role role) {
  return role == Role::kAttention ? kQkvProduct.tiles
         : role == Role::kUp      ? kUpProduct.tiles
                                  : kOutProduct.tiles;
}
constexpr uint32_t Buffers(Role role) { return role == Role::kAttention ? 1 : 2; }
constexpr SharedLayout SharedOf(Role role, uint32_t tiles) {
  SharedLayout layout{};
  layout.slices = BlockBytes(role);
  layout.partials = layout.slices + (role == Role::kAttention ? kWarps * tiles * 512 : 0);
  layout.statistics = layout.partials + Buffers(role) * kWarps * PartialTiles(role) * tiles * 512;
  layout.operands = layout.statistics + Buffers(role) * kWarps * tiles * kTile * 8;
  layout.barriers = layout.operands + (role == Role::kAttention ? 3 * tiles * 4 * 32 * 4 : 0);
  layout.bytes = layout.barriers + 8 * kMostLayers;
  return layout;
}
constexpr uint32_t SharedBytes(uint32_t tiles) {
  uint32_t most = 0;
  for (const Role role : {Role::kAttention, Role::kOutput, Role::kUp}) {
    const uint32_t bytes = SharedOf(role, tiles).bytes;
    most = bytes > most ? bytes : most;
  }
  return most;
}
static_assert(SharedBytes(kMostTiles) <= 227 * 1024, "what a block of an H100 can have");

}  // namespace sprat::gpu::grid

#endif  // SPRAT_GPU_GRID_PLAN_H_
