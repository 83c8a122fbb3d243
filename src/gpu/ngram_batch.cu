// Many tokens: the gathered rows times the projections, in tiles of 128 x 192 over all of k.
//
// Three warpgroups a block: one copies, two multiply 64 x 192 each. Blocks go over the tiles; the
// copying warpgroup is some stages ahead, also into the next tile. Both blocks of a cluster have
// the same columns: each brings half of the projections to both.
#include <algorithm>

#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

constexpr uint32_t kBatchThreads{3 * kWarpgroup};
constexpr uint32_t kCopyRegisters{40}, kComputeRegisters{232};
static_assert((kCopyRegisters + 2 * kComputeRegisters) * kWarpgroup <= 65536);

struct BatchShared {
  static constexpr uint32_t kSlots{4};
  static constexpr uint32_t kRowBytes{kBatchTokens * kPanel * 2};
  static constexpr uint32_t kWeightBytes{kBatchColumns * kPanel * 2};
  static constexpr uint32_t kSlotBytes{kRowBytes + kWeightBytes};
  // Word rows, then results; a row is 16 bytes longer, so that eight rows fall into different
  // banks.
  static constexpr uint32_t kStagedRow{kBatchColumns * 2 + 16};
  static constexpr uint32_t kStaged{kSlots * kSlotBytes};
  static constexpr uint32_t kFull{kStaged + kBatchTokens * kStagedRow};
  static constexpr uint32_t kEmpty{kFull + 8 * kSlots};
  static constexpr uint32_t kWordFull{kEmpty + 8 * kSlots};
  static constexpr uint32_t kWordEmpty{kWordFull + 8};
  static constexpr uint32_t kBytes{kWordEmpty + 8};
};
static_assert(BatchShared::kBytes <= 227 * 1024);

struct BatchArguments {
  NgramModelView model;
  NgramRequest request;
  uint16_t* out;
  uint32_t capacity;  // rows of the gathered panels
  uint32_t column_tiles;
  uint32_t tiles;  // of a cluster's two blocks together
};

struct TilePlace {
  uint32_t row0;    // first token of the block's tile
  uint32_t column;  // tile of columns
  uint32_t rows;    // tokens there are, 0 .. kBatchTokens
};
__device__ inline TilePlace PlaceOf(const BatchArguments& a, uint32_t tile) {
  const uint32_t row0 = (tile / a.column_tiles * kBatchCluster + BlockOfCluster()) * kBatchTokens;
  const uint32_t rows = row0 < a.request.tokens ? min(kBatchTokens, a.request.tokens - row0) : 0;
  return {row0, tile % a.column_tiles, rows};
}

// Half of a stage's projections, to both blocks.
__device__ inline void CopyWeights(const BatchArguments& a, uint32_t to, uint32_t column,
                                   uint32_t panel, uint32_t full) {
  using S = BatchShared;
  const uint32_t rank = BlockOfCluster();
  const size_t row = size_t{panel} * a.model.plan.PanelColumns() + column * kBatchColumns +
                     rank * (kBatchColumns / 2);
  CopyBulkToBoth(to + rank * (S::kWeightBytes / 2), a.model.panels + row * kPanel,
                 S::kWeightBytes / 2, full);
}

// One thread brings rows and projections.
__device__ inline void CopyTiles(const BatchArguments& a, uint32_t shared) {
  using S = BatchShared;
  const uint32_t panels = a.model.plan.hidden / kPanel;
  Ring<S::kSlots> ring;
  bool first = true;
  for (uint32_t tile = blockIdx.x / kBatchCluster; tile < a.tiles;
       tile += gridDim.x / kBatchCluster) {
    const TilePlace place = PlaceOf(a, tile);
    const auto rows = [&](uint32_t panel, uint32_t slot) {
      CopyBulk(shared + slot * S::kSlotBytes,
               a.request.workspace + (size_t{panel} * a.capacity + place.row0) * kPanel,
               S::kRowBytes, shared + S::kFull + 8 * slot);
    };
    for (uint32_t panel = 0; panel < panels; ++panel) {
      WaitBarrier(shared + S::kEmpty + 8 * ring.slot, ring.phase ^ 1);
      const uint32_t full = shared + S::kFull + 8 * ring.slot;
      ArriveExpecting(full, S::kSlotBytes);
      CopyWeights(a, shared + ring.slot * S::kSlotBytes + S::kRowBytes, place.column, panel, full);
      // Projections do not depend on the kernel before; rows do.
      if (first && panel + 1 == min(panels, S::kSlots)) {
        WaitForPrevious();
        for (uint32_t p = 0; p <= panel; ++p) rows(p, p);
        first = false;
      } else if (!first) {
        rows(panel, ring.slot);
      }
      ring.Next();
    }
  }
}

// The other warps of the copying warpgroup bring the word rows, where the results will be.
__device__ inline void CopyWords(const BatchArguments& a, uint32_t shared) {
  using S = BatchShared;
  constexpr uint32_t kThreads{kWarpgroup - 32};
  const uint32_t thread = threadIdx.x - 32;
  uint32_t turn = 0;
  WaitForPrevious();
  for (uint32_t tile = blockIdx.x / kBatchCluster; tile < a.tiles;
       tile += gridDim.x / kBatchCluster, ++turn) {
    const TilePlace place = PlaceOf(a, tile);
    const uint32_t column = place.column * kBatchColumns;
    const uint32_t bytes = min(kBatchColumns, a.model.plan.hidden - column) * 2;
    WaitBarrier(shared + S::kWordEmpty, turn % 2 ^ 1);
    if (thread == 0) ArriveExpecting(shared + S::kWordFull, place.rows * bytes);
    for (uint32_t row = thread; row < place.rows; row += kThreads) {
      const uint16_t* word = WordRow(a.model, a.request, place.row0 + row);
      CopyBulk(shared + S::kStaged + row * S::kStagedRow, word + column, bytes,
               shared + S::kWordFull);
    }
  }
}

// One part of k: sums = rows . weights^T.
__device__ inline void MultiplyPart(uint32_t shared, uint32_t group, uint32_t stages,
                                    Ring<BatchShared::kSlots>& ring, float (&sums)[96]) {
  using S = BatchShared;
  const uint32_t peer = threadIdx.x % kWarpgroup;
#pragma unroll
  for (uint32_t i = 0; i < 96; ++i) sums[i] = 0.0f;
  uint32_t before = 0;
#pragma unroll 1
  for (uint32_t stage = 0; stage < stages; ++stage) {
    WaitBarrier(shared + S::kFull + 8 * ring.slot, ring.phase);
    const uint32_t slot = shared + ring.slot * S::kSlotBytes;
    const uint64_t rows = Operand(slot + group * (S::kRowBytes / 2));
    const uint64_t weights = Operand(slot + S::kRowBytes);
    FenceWgmma();
#pragma unroll
    for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
      WgmmaBf16(sums, rows + step * kNextDepth, weights + step * kNextDepth);
    }
    CommitWgmma();
    WaitForWgmma<1>();
    if (stage > 0 && peer < kBatchCluster) ArriveAt(shared + S::kEmpty + 8 * before, peer);
    before = ring.slot;
    ring.Next();
  }
  WaitForWgmma<0>();
  if (stages > 0 && peer < kBatchCluster) ArriveAt(shared + S::kEmpty + 8 * before, peer);
}

// Adds the word rows that lie where the results go, and stores the warpgroup's rows.
__device__ inline void Finish(const BatchArguments& a, uint32_t shared, uint32_t group,
                              const TilePlace& place, const float (&total)[96]) {
  using S = BatchShared;
  const uint32_t peer = threadIdx.x % kWarpgroup, lane = peer % 32;
  const uint32_t staged = shared + S::kStaged + group * 64 * S::kStagedRow;
  const uint32_t pair = staged + (peer / 32 * 16 + lane / 4) * S::kStagedRow + lane % 4 * 4;
#pragma unroll
  for (uint32_t j = 0; j < kBatchColumns / 8; ++j) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t at = pair + i * 8 * S::kStagedRow + j * 16;
      uint32_t word;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
      StoreShared(at,
                  WithWordRow(a.model.plan, word, total[4 * j + 2 * i], total[4 * j + 2 * i + 1]));
    }
  }
  PublishShared();
  SyncThreads(2 + group, kWarpgroup);
  const uint32_t row = group * 64 + peer;
  if (peer >= 64 || row >= place.rows) return;
  const uint32_t hidden = a.model.plan.hidden, column = place.column * kBatchColumns;
  StoreBulk(a.out + size_t{place.row0 + row} * hidden + column, staged + peer * S::kStagedRow,
            min(kBatchColumns, hidden - column) * 2);
  CommitStores();
}

__device__ inline void Compute(const BatchArguments& a, uint32_t shared) {
  using S = BatchShared;
  const NgramPlan& plan = a.model.plan;
  // Of the two that compute; through a shuffle, so that the compiler knows it is one for a warp.
  const uint32_t group = __shfl_sync(~0u, threadIdx.x / kWarpgroup - 1, 0);
  Ring<S::kSlots> ring;
  uint32_t turn = 0;
  WaitForPrevious();
  for (uint32_t tile = blockIdx.x / kBatchCluster; tile < a.tiles;
       tile += gridDim.x / kBatchCluster, ++turn) {
    float total[96];
#pragma unroll
    for (uint32_t i = 0; i < 96; ++i) total[i] = -0.0f;  // x + -0 is x for every x
#pragma unroll 1
    for (uint32_t part = 0; part < kNgramParts; ++part) {
      float sums[96];
      const uint32_t tables = plan.PartBegin(part + 1) - plan.PartBegin(part);
      MultiplyPart(shared, group, tables * (plan.width / kPanel), ring, sums);
#pragma unroll
      for (uint32_t i = 0; i < 96; ++i) total[i] = __fadd_rn(total[i], sums[i]);
      if (part == 0 && turn > 0) {  // the results of the tile before have left shared memory
        WaitForStoresToRead();
        Arrive(shared + S::kWordEmpty);
      }
    }
    WaitBarrier(shared + S::kWordFull, turn % 2);
    Finish(a, shared, group, PlaceOf(a, tile), total);
  }
  WaitForStores();
}

__global__ void __launch_bounds__(kBatchThreads, 1)
    NgramBatch(const __grid_constant__ BatchArguments a) {
  using S = BatchShared;
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = SharedAddress(memory);
  LetNextStart();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < S::kSlots; ++i) {
      InitBarrier(shared + S::kFull + 8 * i, 1);
      InitBarrier(shared + S::kEmpty + 8 * i, 2 * kBatchCluster);  // warpgroups that multiply
    }
    InitBarrier(shared + S::kWordFull, 1);
    InitBarrier(shared + S::kWordEmpty, 2 * kWarpgroup);
    PublishBarriers();
  }
  SyncCluster();
  if (threadIdx.x < kWarpgroup) {
    GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == 0) CopyTiles(a, shared);
    if (threadIdx.x >= 32) CopyWords(a, shared);
  } else {
    TakeRegisters<kComputeRegisters>();
    Compute(a, shared);
  }
  SyncCluster();  // the other block may still write here
}

cudaError_t LaunchMultiply(const BatchArguments& a, cudaStream_t stream) {
  int device = 0, processors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(NgramBatch, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(BatchShared::kBytes));
  }
  if (status != cudaSuccess) return status;
  const uint32_t clusters = std::min<uint32_t>(a.tiles, processors / kBatchCluster);
  return Launch(NgramBatch,
                {.grid = dim3(clusters * kBatchCluster),
                 .threads = kBatchThreads,
                 .shared_bytes = BatchShared::kBytes,
                 .cluster = kBatchCluster,
                 .overlap = true},
                stream, a);
}

}  // namespace

cudaError_t LaunchNgramBatch(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream) {
  const cudaError_t gathered = LaunchNgramGather(model, request, overlap, stream);
  if (gathered != cudaSuccess) return gathered;
  const uint32_t capacity = BatchCapacity(request.tokens);
  const uint32_t columns = model.plan.PanelColumns() / kBatchColumns;
  const uint32_t tiles = capacity / (kBatchTokens * kBatchCluster) * columns;
  return LaunchMultiply({model, request, out, capacity, columns, tiles}, stream);
}

}  // namespace sprat::gpu
