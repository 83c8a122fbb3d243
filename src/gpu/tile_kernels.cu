#include "gpu/tile_kernels.h"

#include <algorithm>

#include "gpu/attention.h"
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/tile_tools.cuh"

namespace sprat::gpu {
namespace {

// Three warpgroups: one copies, two compute.
constexpr uint32_t kWarpgroup{128};
constexpr uint32_t kTileThreads{3 * kWarpgroup};
constexpr uint32_t kCopyRegisters{24}, kComputeRegisters{240};
static_assert((kCopyRegisters + 2 * kComputeRegisters) * kWarpgroup <= 65536);
constexpr uint32_t kPanelBytes{kTileTokens * kPanel * 2};  // 128 rows of one panel

struct TileArguments {
  const uint16_t* weights;  // panels
  const float* bias;
  const float* norm;     // gamma, beta
  const uint16_t* from;  // panels
  uint16_t* to;          // panels
  float* state;
  uint32_t rows;  // capacity
  float eps;
};

// --- Linear --------------------------------------------------------------------------------------
// A block keeps its 128 tokens in shared memory and goes over the tiles of 128 columns. The two
// computing warpgroups take tiles in turn: while one multiplies, the other adds up its epilogue.

constexpr uint32_t kLinearSlots{4};
constexpr uint32_t kPanels{kHidden / kPanel};
struct LinearShared {
  static constexpr uint32_t kTokens{0};
  static constexpr uint32_t kWeights{kPanels * kPanelBytes};
  static constexpr uint32_t kStaging{kWeights + kLinearSlots * kPanelBytes};
  static constexpr uint32_t kStagingBytes{kTileTokens * kTileColumns * 2};  // a warpgroup
  static constexpr uint32_t kBarriers{kStaging + 2 * kStagingBytes};
  static constexpr uint32_t kTokensFull{kBarriers};
  static constexpr uint32_t kFull{kTokensFull + 8 * kPanels};
  static constexpr uint32_t kEmpty{kFull + 8 * kLinearSlots};
  static constexpr uint32_t kBytes{kEmpty + 8 * kLinearSlots};
};
static_assert(LinearShared::kBytes <= 227 * 1024);

// The n-th tile in order of execution. The up projection goes from right to left: what it writes
// last is what the down projection reads first, and is then still in L2.
template <Matrix kMatrix>
__device__ constexpr uint32_t TileInOrder(uint32_t n) {
  return kMatrix == Matrix::kUp ? Rows(kMatrix) / kTileColumns - 1 - n : n;
}

// Each block of the cluster brings half of every weight tile to both.
template <Matrix kMatrix>
__device__ inline void CopyLinear(const TileArguments& a, uint32_t shared) {
  using S = LinearShared;
  const uint32_t rank = BlockOfCluster();
  const auto weights = [&](uint32_t tile, uint32_t panel, Ring<kLinearSlots>& ring) {
    WaitBarrier(shared + S::kEmpty + 8 * ring.slot, ring.phase ^ 1);
    const uint32_t full = shared + S::kFull + 8 * ring.slot;
    ArriveExpecting(full, kPanelBytes);
    const size_t row = size_t{panel} * Rows(kMatrix) + TileInOrder<kMatrix>(tile) * kTileColumns;
    CopyBulkToBoth(shared + S::kWeights + ring.slot * kPanelBytes + rank * (kPanelBytes / 2),
                   a.weights + row * kPanel + rank * (kPanelBytes / 4), kPanelBytes / 2, full);
    ring.Next();
  };
  Ring<kLinearSlots> ring;
  for (uint32_t tile = blockIdx.y; tile < Rows(kMatrix) / kTileColumns; tile += gridDim.y) {
    for (uint32_t panel = 0; panel < kPanels; ++panel) {
      weights(tile, panel, ring);
      if (tile == blockIdx.y && panel + 1 == min(kPanels, kLinearSlots)) {
        // Weights do not depend on the kernel before; tokens do.
        WaitForPrevious();
        for (uint32_t p = 0; p < kPanels; ++p) {
          const uint32_t tokens_full = shared + S::kTokensFull + 8 * p;
          ArriveExpecting(tokens_full, kPanelBytes);
          CopyBulk(shared + S::kTokens + p * kPanelBytes,
                   a.from + (size_t{p} * a.rows + blockIdx.x * kTileTokens) * kPanel, kPanelBytes,
                   tokens_full);
        }
      }
    }
  }
}

// One (128, 128) tile into the warpgroup's registers: sums[h] has rows 64h ...
__device__ inline void MultiplyTile(uint32_t shared, Ring<kLinearSlots>& ring,
                                    float (&sums)[2][64]) {
  using S = LinearShared;
  const uint32_t peer = threadIdx.x % kWarpgroup;
  uint32_t before = 0;
#pragma unroll 1
  for (uint32_t panel = 0; panel < kPanels; ++panel) {
    WaitBarrier(shared + S::kTokensFull + 8 * panel, 0);
    WaitBarrier(shared + S::kFull + 8 * ring.slot, ring.phase);
    const uint64_t rows = Operand(shared + S::kTokens + panel * kPanelBytes);
    const uint64_t weights = Operand(shared + S::kWeights + ring.slot * kPanelBytes);
    constexpr uint64_t kLowerHalf{kPanelBytes / 2 >> 4};
    FenceWgmma();
#pragma unroll
    for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
      Wgmma(sums[0], rows + step * kNextDepth, weights + step * kNextDepth);
      Wgmma(sums[1], rows + kLowerHalf + step * kNextDepth, weights + step * kNextDepth);
    }
    CommitWgmma();
    WaitForWgmma<1>();
    if (panel > 0 && peer < kTileCluster) ArriveAt(shared + S::kEmpty + 8 * before, peer);
    before = ring.slot;
    ring.Next();
  }
}

template <Matrix kMatrix, bool kGelu>
__device__ inline void ComputeLinear(const TileArguments& a, uint32_t shared) {
  using S = LinearShared;
  constexpr uint32_t kTiles{Rows(kMatrix) / kTileColumns};
  // Of the two that compute; through a shuffle, so that the compiler knows it is one for a warp.
  const uint32_t group = __shfl_sync(~0u, threadIdx.x / kWarpgroup - 1, 0);
  const uint32_t warp = threadIdx.x % kWarpgroup / 32, lane = threadIdx.x % 32;
  const uint32_t order = 2 + group, next_order = 2 + (group ^ 1);
  const uint32_t staged = shared + S::kStaging + group * S::kStagingBytes;
  const bool stores = threadIdx.x % kWarpgroup == 0;
  uint32_t turn = group;
  for (uint32_t tile = blockIdx.y + group * gridDim.y; tile < kTiles;
       tile += 2 * gridDim.y, turn += 2) {
    Ring<kLinearSlots> ring = Ring<kLinearSlots>::At(turn * kPanels);
    float sums[2][64];
#pragma unroll
    for (uint32_t j = 0; j < 16; ++j) {
      const float2 bias =
          LoadConstant(a.bias + TileInOrder<kMatrix>(tile) * kTileColumns + 8 * j + lane % 4 * 2);
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        sums[0][4 * j + e] = sums[1][4 * j + e] = e % 2 == 0 ? bias.x : bias.y;
      }
    }
    if (turn > 0) SyncThreads(order, 2 * kWarpgroup);
    MultiplyTile(shared, ring, sums);
    if (tile + gridDim.y < kTiles) ArriveThreads(next_order, 2 * kWarpgroup);
    WaitForWgmma<0>();
    const uint32_t last = (ring.slot + kLinearSlots - 1) % kLinearSlots;
    if (threadIdx.x % kWarpgroup < kTileCluster) {
      ArriveAt(shared + S::kEmpty + 8 * last, threadIdx.x % kWarpgroup);
    }
    if (stores) WaitForStoresToRead();
    SyncThreads(4 + group, kWarpgroup);
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t pair = StagedPair(staged, 4 * half + warp, lane);
#pragma unroll
      for (uint32_t j = 0; j < 16; ++j) {
        float* v = &sums[half][4 * j];
        if (kGelu) {
#pragma unroll
          for (uint32_t e = 0; e < 4; ++e) v[e] = Gelu(v[e]);
        }
        const uint32_t to = StagedTile(pair, j, kTileTokens);
        StoreShared(to, PackHalves(v[0], v[1]));
        StoreShared(to + kEightRows, PackHalves(v[2], v[3]));
      }
    }
    PublishShared();
    SyncThreads(4 + group, kWarpgroup);
    if (stores) {
      for (uint32_t p = 0; p < kTileColumns / kPanel; ++p) {
        const size_t panel = TileInOrder<kMatrix>(tile) * (kTileColumns / kPanel) + p;
        StoreBulk(a.to + (panel * a.rows + blockIdx.x * kTileTokens) * kPanel,
                  staged + p * kPanelBytes, kPanelBytes);
      }
      CommitStores();
    }
  }
  if (stores) WaitForStores();
}

template <Matrix kMatrix, bool kGelu>
__global__ void __launch_bounds__(kTileThreads, 1) TileLinear(TileArguments a) {
  using S = LinearShared;
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = SharedAddress(memory);
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < kPanels; ++i) InitBarrier(shared + S::kTokensFull + 8 * i, 1);
    for (uint32_t i = 0; i < kLinearSlots; ++i) {
      InitBarrier(shared + S::kFull + 8 * i, 1);
      InitBarrier(shared + S::kEmpty + 8 * i, kTileCluster);  // one warpgroup in each block
    }
    PublishBarriers();
  }
  SyncCluster();
  if (threadIdx.x < kWarpgroup) {
    GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == 0) CopyLinear<kMatrix>(a, shared);
  } else {
    TakeRegisters<kComputeRegisters>();
    WaitForPrevious();
    LetNextStart();  // not earlier: ComputeNorm reads what kernels before this one's previous wrote
    ComputeLinear<kMatrix, kGelu>(a, shared);
  }
  SyncCluster();  // the other block may still write here
}

// --- Linear, residual, LayerNorm -----------------------------------------------------------------
// A block has 128 tokens and all columns, so that LayerNorm finds whole rows in registers.

constexpr uint32_t kNormSlots{3};
constexpr uint32_t kWeightBytes{kHidden * kPanel * 2};  // all rows of one panel
struct NormShared {
  static constexpr uint32_t kSlotBytes{kPanelBytes + kWeightBytes};
  static constexpr uint32_t kFull{kNormSlots * kSlotBytes};
  static constexpr uint32_t kEmpty{kFull + 8 * kNormSlots};
  static constexpr uint32_t kBytes{kEmpty + 8 * kNormSlots};
  static constexpr uint32_t kWarpBytes{16 * kHidden * 4};  // of sums; over the slots
};
static_assert(NormShared::kBytes <= 227 * 1024);
static_assert(8 * NormShared::kWarpBytes <= NormShared::kFull);

template <Matrix kMatrix>
__device__ inline void CopyNorm(const TileArguments& a, uint32_t shared) {
  using S = NormShared;
  constexpr uint32_t kDepthPanels{Columns(kMatrix) / kPanel};
  const uint32_t rank = BlockOfCluster();
  const auto tokens = [&](uint32_t panel, uint32_t slot) {
    CopyBulk(shared + slot * S::kSlotBytes,
             a.from + (size_t{panel} * a.rows + blockIdx.x * kTileTokens) * kPanel, kPanelBytes,
             shared + S::kFull + 8 * slot);
  };
  Ring<kNormSlots> ring;
  for (uint32_t panel = 0; panel < kDepthPanels; ++panel) {
    WaitBarrier(shared + S::kEmpty + 8 * ring.slot, ring.phase ^ 1);
    const uint32_t full = shared + S::kFull + 8 * ring.slot;
    ArriveExpecting(full, S::kSlotBytes);
    CopyBulkToBoth(shared + ring.slot * S::kSlotBytes + kPanelBytes + rank * (kWeightBytes / 2),
                   a.weights + (size_t{panel} * kHidden + rank * (kHidden / 2)) * kPanel,
                   kWeightBytes / 2, full);
    if (panel + 1 == kNormSlots) {  // weights do not depend on the kernel before; tokens do
      WaitForPrevious();
      for (uint32_t p = 0; p < kNormSlots; ++p) tokens(p, p);
    }
    if (panel >= kNormSlots) tokens(panel, ring.slot);
    ring.Next();
  }
}

// The thread's pair of columns 192n + 8j + ...
__device__ inline float2 ColumnPair(const float* values, uint32_t n, uint32_t j) {
  return LoadConstant(values + 192 * n + 8 * j + threadIdx.x % 4 * 2);
}

// LayerNorm of a warp's 16 rows to `state` and, as an operand, to `to`. The sums go through the
// warp's own part of shared memory, because there are no registers for anything beside them: 512
// bytes a tile of eight columns, of which a panel's operand takes the place once it has been read.
__device__ inline void StoreNormalised(const TileArguments& a, const RowSums& sums, uint32_t shared,
                                       float* state, uint16_t* to) {
  constexpr uint32_t kTileBytes{512}, kPanelTiles{kPanel / 8}, kOperandBytes{16 * kPanel * 2};
  const uint32_t lane = threadIdx.x % 32;
  const float2 upper = StatisticsOf(sums, 0, a.eps), lower = StatisticsOf(sums, 1, a.eps);
#pragma unroll
  for (uint32_t tile = 0; tile < kHidden / 8; ++tile) {
    const float* v = &sums[tile / 24][tile % 24 * 4];
    StoreShared(shared + tile * kTileBytes + 16 * lane, v[0], v[1], v[2], v[3]);
  }
#pragma unroll 1
  for (uint32_t panel = 0; panel < kHidden / kPanel; ++panel) {
    float2 gamma[kPanelTiles], beta[kPanelTiles];
#pragma unroll
    for (uint32_t j = 0; j < kPanelTiles; ++j) {  // all on their way before the first is needed
      gamma[j] = ColumnPair(a.norm, 0, panel * kPanelTiles + j);
      beta[j] = ColumnPair(a.norm + kHidden, 0, panel * kPanelTiles + j);
    }
    float4 v[kPanelTiles];
#pragma unroll
    for (uint32_t j = 0; j < kPanelTiles; ++j) {
      v[j] = LoadShared(shared + (panel * kPanelTiles + j) * kTileBytes + 16 * lane);
    }
    __syncwarp();
    const uint32_t pair = StagedPair(shared + panel * kOperandBytes, 0, lane);
#pragma unroll
    for (uint32_t j = 0; j < kPanelTiles; ++j) {
      const uint32_t tile = panel * kPanelTiles + j;
      v[j].x = Normalised(v[j].x, upper, gamma[j].x, beta[j].x);
      v[j].y = Normalised(v[j].y, upper, gamma[j].y, beta[j].y);
      v[j].z = Normalised(v[j].z, lower, gamma[j].x, beta[j].x);
      v[j].w = Normalised(v[j].w, lower, gamma[j].y, beta[j].y);
      *reinterpret_cast<float4*>(state + 128 * tile) = v[j];
      StoreShared(StagedTile(pair, j, 0), PackHalves(v[j].x, v[j].y));
      StoreShared(StagedTile(pair, j, 0) + kEightRows, PackHalves(v[j].z, v[j].w));
    }
  }
  PublishShared();
  __syncwarp();
  if (lane != 0) return;
  for (uint32_t panel = 0; panel < kHidden / kPanel; ++panel) {
    StoreBulk(to + size_t{panel} * a.rows * kPanel, shared + panel * kOperandBytes, kOperandBytes);
  }
  CommitStores();
  WaitForStores();
}

template <Matrix kMatrix>
__device__ inline void ComputeNorm(const TileArguments& a, uint32_t shared) {
  using S = NormShared;
  const uint32_t group = threadIdx.x / kWarpgroup - 1;
  const uint32_t warp = threadIdx.x % kWarpgroup / 32, lane = threadIdx.x % 32;
  const uint32_t row0 = blockIdx.x * kTileTokens + 64 * group;
  float* state = a.state + StateOffset(row0 + 16 * warp, 0) + 4 * lane;
  // The state comes from two kernels back or further, and the kernel before this one lets it start
  // only when those are done: so it is read without waiting.
  RowSums sums;
#pragma unroll
  for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
    for (uint32_t j = 0; j < 24; ++j) {
      const float4 old = __ldcg(reinterpret_cast<const float4*>(state + 128 * (24 * n + j)));
      sums[n][4 * j] = old.x;
      sums[n][4 * j + 1] = old.y;
      sums[n][4 * j + 2] = old.z;
      sums[n][4 * j + 3] = old.w;
    }
  }
#pragma unroll
  for (uint32_t n = 0; n < 2; ++n) {
#pragma unroll
    for (uint32_t j = 0; j < 24; ++j) {
      if (j % 4 == 0) __syncwarp();  // else the compiler brings all loads forward, and spills
      const float2 bias = ColumnPair(a.bias, n, j);
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        sums[n][4 * j + e] = __fadd_rn(sums[n][4 * j + e], e % 2 == 0 ? bias.x : bias.y);
      }
    }
  }
  WaitForPrevious();  // whose readers of what is written below must be done
  Ring<kNormSlots> ring;
  uint32_t before = 0;
  const uint32_t peer = threadIdx.x % kWarpgroup;
#pragma unroll 1
  for (uint32_t panel = 0; panel < Columns(kMatrix) / kPanel; ++panel) {
    WaitBarrier(shared + S::kFull + 8 * ring.slot, ring.phase);
    const uint32_t slot = shared + ring.slot * S::kSlotBytes;
    const uint64_t rows = Operand(slot + group * (kPanelBytes / 2));
    const uint64_t weights = Operand(slot + kPanelBytes);
    constexpr uint64_t kUpperColumns{kWeightBytes / 2 >> 4};
    FenceWgmma();
#pragma unroll
    for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
      Wgmma(sums[0], rows + step * kNextDepth, weights + step * kNextDepth);
      Wgmma(sums[1], rows + step * kNextDepth, weights + kUpperColumns + step * kNextDepth);
    }
    CommitWgmma();
    WaitForWgmma<1>();
    if (panel > 0 && peer < kTileCluster) ArriveAt(shared + S::kEmpty + 8 * before, peer);
    before = ring.slot;
    ring.Next();
  }
  WaitForWgmma<0>();
  SyncThreads(2, 2 * kWarpgroup);  // nobody reads the slots any more
  StoreNormalised(a, sums, shared + (4 * group + warp) * S::kWarpBytes, state,
                  a.to + size_t{row0 + 16 * warp} * kPanel);
}

template <Matrix kMatrix>
__global__ void __launch_bounds__(kTileThreads, 1) TileLinearNorm(TileArguments a) {
  using S = NormShared;
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = SharedAddress(memory);
  LetNextStart();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < kNormSlots; ++i) {
      InitBarrier(shared + S::kFull + 8 * i, 1);
      InitBarrier(shared + S::kEmpty + 8 * i, 2 * kTileCluster);  // both warpgroups of both blocks
    }
    PublishBarriers();
  }
  SyncCluster();
  if (threadIdx.x < kWarpgroup) {
    GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == 0) CopyNorm<kMatrix>(a, shared);
  } else {
    TakeRegisters<kComputeRegisters>();
    ComputeNorm<kMatrix>(a, shared);
  }
  SyncCluster();  // the other block may still write here
}

// --- Launches ------------------------------------------------------------------------------------

template <Matrix kMatrix>
TileArguments Arguments(const Step& step, const LaunchContext& c, const uint16_t* from,
                        uint16_t* to) {
  const std::byte* weights = c.buffers.weights;
  return {.weights =
              reinterpret_cast<const uint16_t*>(weights + c.weights.MatrixAt(step.layer, kMatrix)),
          .bias = reinterpret_cast<const float*>(weights + c.weights.BiasAt(step.layer, kMatrix)),
          .norm = reinterpret_cast<const float*>(weights + c.weights.NormAt(step.norm)),
          .from = from,
          .to = to,
          .state = c.buffers.state,
          .rows = c.buffers.rows,
          .eps = c.eps};
}

// Blocks along the tokens: whole clusters.
uint32_t TokenTiles(uint32_t tokens) {
  constexpr uint32_t kClusterTokens{kTileTokens * kTileCluster};
  return (tokens + kClusterTokens - 1) / kClusterTokens * kTileCluster;
}

template <Matrix kMatrix, bool kGelu>
cudaError_t LaunchTileLinear(const Step& step, const LaunchContext& c, uint16_t* to) {
  const uint32_t rows = TokenTiles(c.tokens);
  const uint32_t split =
      std::clamp(kPieceTokens / kTileTokens / rows, 1u, Rows(kMatrix) / kTileColumns);
  return Launch(TileLinear<kMatrix, kGelu>,
                {.grid = dim3(rows, split),
                 .threads = kTileThreads,
                 .shared_bytes = LinearShared::kBytes,
                 .cluster = kTileCluster,
                 .overlap = c.overlap},
                c.stream, Arguments<kMatrix>(step, c, c.buffers.operand, to));
}

template <Matrix kMatrix>
cudaError_t LaunchTileLinearNorm(const Step& step, const LaunchContext& c, const uint16_t* from) {
  return Launch(TileLinearNorm<kMatrix>,
                {.grid = dim3(TokenTiles(c.tokens)),
                 .threads = kTileThreads,
                 .shared_bytes = NormShared::kBytes,
                 .cluster = kTileCluster,
                 .overlap = c.overlap},
                c.stream, Arguments<kMatrix>(step, c, from, c.buffers.operand));
}

cudaError_t AllowShared(void (*kernel)(TileArguments), uint32_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

}  // namespace

cudaError_t LaunchTileStep(const Step& step, const LaunchContext& context) {
  const Buffers& b = context.buffers;
  switch (step.operation) {
    case Operation::kEmbedNorm:
      return LaunchEmbedNorm(step, context);
    case Operation::kLinear:
      return LaunchTileLinear<Matrix::kQkv, false>(step, context, b.qkv);
    case Operation::kAttention:
      return LaunchAttention(context);
    case Operation::kLinearGelu:
      return LaunchTileLinear<Matrix::kUp, true>(step, context, b.inner);
    case Operation::kLinearResidualNorm:
      if (step.matrix == Matrix::kOut) {
        return LaunchTileLinearNorm<Matrix::kOut>(step, context, b.context);
      }
      return LaunchTileLinearNorm<Matrix::kDown>(step, context, b.inner);
    case Operation::kPool:
      return LaunchPool(step, context);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t PrepareTileKernels() {
  const cudaError_t results[] = {AllowShared(TileLinear<Matrix::kQkv, false>, LinearShared::kBytes),
                                 AllowShared(TileLinear<Matrix::kUp, true>, LinearShared::kBytes),
                                 AllowShared(TileLinearNorm<Matrix::kOut>, NormShared::kBytes),
                                 AllowShared(TileLinearNorm<Matrix::kDown>, NormShared::kBytes)};
  for (const cudaError_t result : results) {
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace sprat::gpu
