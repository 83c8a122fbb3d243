// Many tokens: the rows times the projections, in tiles of 128 x 192 over all of k.
//
// Three warpgroups a block: one copies, two multiply 64 x 192 each. Blocks go over the tiles; the
// copying warpgroup is some stages ahead, also into the next tile. Both blocks of a cluster have
// the same columns: each brings half of the projections to both. The rows come from a workspace in
// device memory, into which the blocks gather them: all threads those of the first tiles, then
// three warps, beside the products, those of the tiles after.
#include <algorithm>

#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_gather.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

constexpr uint32_t kBatchThreads{3 * kWarpgroup};
constexpr uint32_t kSideThreads{kWarpgroup - 32};
constexpr uint32_t kCopyRegisters{72}, kComputeRegisters{216};
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
  static constexpr uint32_t kGather{kWordEmpty + 8};
  static constexpr uint32_t kBytes{kGather + sizeof(GatherShared)};
};
static_assert(BatchShared::kBytes <= 227 * 1024);

struct BatchArguments {
  NgramModelView model;
  NgramRequest request;
  uint16_t* out;
  GatherTarget gathered;
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

// Brings the projections of the first stages, which do not depend on the kernel before. One thread.
__device__ inline void StartWeights(const BatchArguments& a, uint32_t shared) {
  using S = BatchShared;
  const TilePlace place = PlaceOf(a, blockIdx.x / kBatchCluster);
  for (uint32_t p = 0; p < min(a.model.plan.hidden / kPanel, S::kSlots); ++p) {
    ArriveExpecting(shared + S::kFull + 8 * p, S::kSlotBytes);
    CopyWeights(a, shared + p * S::kSlotBytes + S::kRowBytes, place.column, p,
                shared + S::kFull + 8 * p);
  }
}

// One thread brings rows and projections.
__device__ inline void CopyTiles(const BatchArguments& a, uint32_t shared) {
  using S = BatchShared;
  const uint32_t panels = a.model.plan.hidden / kPanel;
  Ring<S::kSlots> ring;
  uint32_t started = min(panels, S::kSlots);  // stages whose projections are on their way
  for (uint32_t tile = blockIdx.x / kBatchCluster; tile < a.tiles;
       tile += gridDim.x / kBatchCluster) {
    const TilePlace place = PlaceOf(a, tile);
    WaitForGroup(a.request, a.gathered, tile / a.column_tiles);
    for (uint32_t panel = 0; panel < panels; ++panel) {
      const uint32_t full = shared + S::kFull + 8 * ring.slot;
      const uint32_t slot = shared + ring.slot * S::kSlotBytes;
      if (started > 0) {
        --started;
      } else {
        WaitBarrier(shared + S::kEmpty + 8 * ring.slot, ring.phase ^ 1);
        ArriveExpecting(full, S::kSlotBytes);
        CopyWeights(a, slot + S::kRowBytes, place.column, panel, full);
      }
      CopyBulk(slot,
               a.gathered.panels + (size_t{panel} * a.gathered.capacity + place.row0) * kPanel,
               S::kRowBytes, full);
      ring.Next();
    }
  }
}

// Brings a tile's word rows where the results will be. `thread` of kSideThreads.
__device__ inline void CopyWords(const BatchArguments& a, uint32_t shared, uint32_t thread,
                                 const TilePlace& place, uint32_t turn) {
  using S = BatchShared;
  const uint32_t column = place.column * kBatchColumns;
  const uint32_t bytes = min(kBatchColumns, a.model.plan.hidden - column) * 2;
  WaitBarrier(shared + S::kWordEmpty, turn % 2 ^ 1);
  if (thread == 0) ArriveExpecting(shared + S::kWordFull, place.rows * bytes);
  for (uint32_t row = thread; row < place.rows; row += kSideThreads) {
    const uint16_t* word = WordRow(a.model, a.request, place.row0 + row);
    CopyBulk(shared + S::kStaged + row * S::kStagedRow, word + column, bytes,
             shared + S::kWordFull);
  }
}

// Units that the tiles of all blocks need in their turn.
__device__ inline uint32_t UnitsOfTurn(const BatchArguments& a, uint32_t turn) {
  const uint32_t clusters = gridDim.x / kBatchCluster;
  return UnitsFor(min((turn + 1) * clusters, a.tiles) - 1, a.column_tiles);
}

// The other warps of the copying warpgroup bring word rows and gather the rows of the next tiles.
__device__ inline void WorkBeside(const BatchArguments& a, uint32_t shared, GatherShared& gather) {
  const GatherTeam team = {threadIdx.x - 32, kSideThreads, 4};
  uint32_t turn = 0;
  GatherUpTo<4>(a.model, a.request, a.gathered, UnitsOfTurn(a, 0), team, gather);
  for (uint32_t tile = blockIdx.x / kBatchCluster; tile < a.tiles;
       tile += gridDim.x / kBatchCluster, ++turn) {
    CopyWords(a, shared, team.thread, PlaceOf(a, tile), turn);
    GatherUpTo<4>(a.model, a.request, a.gathered, UnitsOfTurn(a, turn + 1), team, gather);
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
  if (threadIdx.x == 0) StartWeights(a, shared);
  WaitForPrevious();
  auto& gather = *reinterpret_cast<GatherShared*>(memory + S::kGather);
  const uint32_t needed = min(UnitsOfTurn(a, 0), GatherUnitsOf(a.request.tokens));
  GatherNext<12>(a.model, a.request, a.gathered,
                 min((needed + gridDim.x - 1) / gridDim.x, kMostUnits),
                 {threadIdx.x, kBatchThreads, 1}, gather);
  if (threadIdx.x < kWarpgroup) {
    GiveRegisters<kCopyRegisters>();
    if (threadIdx.x == 0) CopyTiles(a, shared);
    if (threadIdx.x >= 32) WorkBeside(a, shared, gather);
  } else {
    TakeRegisters<kComputeRegisters>();
    Compute(a, shared);
  }
  SyncCluster();  // the other block may still write here
}

__global__ void ClearCounters(uint32_t* counters, uint32_t count) {
  LetNextStart();
  WaitForPrevious();
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) counters[i] = 0;
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
  const uint32_t capacity = BatchCapacity(request.tokens);
  const uint32_t columns = model.plan.PanelColumns() / kBatchColumns;
  const uint32_t tiles = capacity / kGroupTokens * columns;
  auto* counters =
      reinterpret_cast<uint32_t*>(request.workspace + size_t{capacity} * model.plan.hidden);
  const auto count = static_cast<uint32_t>(BatchCounters(request.tokens));
  const cudaError_t cleared =
      Launch(ClearCounters, {.grid = dim3(1), .threads = 256, .overlap = overlap}, stream, counters,
             count);
  if (cleared != cudaSuccess) return cleared;
  const GatherTarget gathered = {request.workspace, counters, counters + 1, capacity};
  return LaunchMultiply({model, request, out, gathered, columns, tiles}, stream);
}

}  // namespace sprat::gpu
