// Some tens or hundreds of tokens: too many for the query kernel, too few tiles for the batch
// kernel. The sum over k is split: the four blocks of a cluster (of eight: of each of two token
// tiles) have a part each of the same tile of the gathered rows times the projections. Then each
// sends to the others the sums of their quarters of the columns, adds those that it gets in the
// order of the parts, and stores its quarter.
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

// kRowGroups warpgroups multiply 64 x kColumns each; one copies. kTokenTiles: in a cluster.
template <uint32_t kRowGroups, uint32_t kTileWidth, uint32_t kTokenTiles, uint32_t kRing>
struct SplitShape {
  static constexpr uint32_t kGroups{kRowGroups};
  static constexpr uint32_t kRows{64 * kRowGroups};
  static constexpr uint32_t kColumns{kTileWidth};
  static constexpr uint32_t kQuarter{kColumns / kNgramParts};
  static constexpr uint32_t kTiles{kTokenTiles};
  static constexpr uint32_t kCluster{kNgramParts * kTokenTiles};
  static constexpr uint32_t kThreads{(1 + kRowGroups) * kWarpgroup};
  static constexpr uint32_t kPairs{(kRows * kQuarter / 2 + kThreads - 1) / kThreads};  // a thread

  static constexpr uint32_t kSlots{kRing};
  static constexpr uint32_t kRowBytes{kRows * kPanel * 2};
  static constexpr uint32_t kWeightBytes{kColumns * kPanel * 2};
  static constexpr uint32_t kSlotBytes{kRowBytes + kWeightBytes};
  // The block's sums and those that it gets take the place of the slots, quarter by quarter.
  static constexpr uint32_t kQuarterBytes{kRows * kQuarter * 4};
  static constexpr uint32_t kReceived{kNgramParts * kQuarterBytes};
  static constexpr uint32_t kWords{kSlots * kSlotBytes};
  static constexpr uint32_t kFull{kWords + kRows * 8};
  static constexpr uint32_t kEmpty{kFull + 8 * kSlots};
  static constexpr uint32_t kSumsFull{kEmpty + 8 * kSlots};
  static constexpr uint32_t kBytes{kSumsFull + 8};
  static_assert(kBytes <= 227 * 1024 && 2 * kReceived <= kWords);
};
using SmallSplit = SplitShape<1, 104, 1, 10>;
using MiddleSplit = SplitShape<2, 104, 1, 7>;
using LargeSplit = SplitShape<2, kSplitColumns, 2, 5>;

struct SplitArguments {
  NgramModelView model;
  NgramRequest request;
  uint16_t* out;
  uint32_t capacity;  // rows of the gathered panels
};

// A block's share of the work.
struct SplitPlace {
  uint32_t part;
  uint32_t tile;    // of tokens, in the cluster
  uint32_t row0;    // first token
  uint32_t rows;    // tokens there are
  uint32_t column;  // first column
  uint32_t table;   // first table, and after the last
  uint32_t end;
};
template <typename Shape>
__device__ inline SplitPlace PlaceOf(const SplitArguments& a) {
  SplitPlace place;
  const uint32_t rank = BlockOfCluster();
  place.part = rank % kNgramParts;
  place.tile = rank / kNgramParts;
  place.row0 = (blockIdx.y * Shape::kTiles + place.tile) * Shape::kRows;
  place.rows = place.row0 < a.request.tokens ? min(Shape::kRows, a.request.tokens - place.row0) : 0;
  place.column = blockIdx.x / Shape::kCluster * Shape::kColumns;
  place.table = a.model.plan.PartBegin(place.part);
  place.end = a.model.plan.PartBegin(place.part + 1);
  return place;
}

// The block's share of a stage's projections, to the blocks that need them.
template <typename Shape>
__device__ inline void CopyWeights(const SplitArguments& a, const SplitPlace& place, uint32_t stage,
                                   uint32_t slot, uint32_t full) {
  const NgramPlan& plan = a.model.plan;
  const size_t panel = place.table * (plan.width / kPanel) + stage;
  const size_t row = panel * plan.PanelColumns() + place.column;
  ArriveExpecting(full, Shape::kSlotBytes);
  constexpr uint32_t kBytes{Shape::kWeightBytes / Shape::kTiles};
  const uint32_t to = slot + Shape::kRowBytes + place.tile * kBytes;
  const uint16_t* from = a.model.panels + row * kPanel + place.tile * (kBytes / 2);
  if constexpr (Shape::kTiles == 1) {
    CopyBulk(to, from, kBytes, full);
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(kBytes), "r"(full),
        "h"(static_cast<uint16_t>(((1 << kNgramParts) + 1) << place.part))
        : "memory");
  }
}

// One thread brings rows and projections.
template <typename Shape>
__device__ inline void CopyTile(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                                uint32_t stages) {
  const uint32_t first_panel = place.table * (a.model.plan.width / kPanel);
  const auto rows = [&](uint32_t stage, uint32_t slot) {
    const size_t row = size_t{first_panel + stage} * a.capacity + place.row0;
    CopyBulk(shared + slot * Shape::kSlotBytes, a.request.workspace + row * kPanel,
             Shape::kRowBytes, shared + Shape::kFull + 8 * slot);
  };
  const auto weights = [&](uint32_t stage, uint32_t slot) {
    CopyWeights<Shape>(a, place, stage, shared + slot * Shape::kSlotBytes,
                       shared + Shape::kFull + 8 * slot);
  };
  const uint32_t at_once = min(stages, Shape::kSlots);
  for (uint32_t s = 0; s < at_once; ++s) weights(s, s);
  WaitForPrevious();  // projections do not depend on the kernel before; rows do
  for (uint32_t s = 0; s < at_once; ++s) rows(s, s);
  Ring<Shape::kSlots> ring = Ring<Shape::kSlots>::At(at_once);
  for (uint32_t s = at_once; s < stages; ++s) {
    WaitBarrier(shared + Shape::kEmpty + 8 * ring.slot, ring.phase ^ 1);
    weights(s, ring.slot);
    rows(s, ring.slot);
    ring.Next();
  }
}

// The other warps of the copying warpgroup find the word rows and bring what is needed of them to
// the L2.
template <typename Shape>
__device__ inline void FindWords(const SplitArguments& a, const SplitPlace& place,
                                 const uint16_t** words) {
  WaitForPrevious();
  const uint32_t column = place.column + place.part * Shape::kQuarter;
  for (uint32_t row = threadIdx.x - 32; row < place.rows; row += kWarpgroup - 32) {
    words[row] = WordRow(a.model, a.request, place.row0 + row) + column;
    if (column < a.model.plan.hidden) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(words[row]));
    }
  }
}

template <typename Shape>
__device__ inline void Multiply(uint32_t shared, const SplitPlace& place, uint32_t stages,
                                float (&sums)[Shape::kColumns / 2]) {
  const uint32_t group = __shfl_sync(~0u, threadIdx.x / kWarpgroup - 1, 0);
  const uint32_t peer = threadIdx.x % kWarpgroup;
  Ring<Shape::kSlots> ring;
  uint32_t before = 0;
#pragma unroll 1
  for (uint32_t s = 0; s < stages; ++s) {
    WaitBarrier(shared + Shape::kFull + 8 * ring.slot, ring.phase);
    const uint32_t slot = shared + ring.slot * Shape::kSlotBytes;
    const uint64_t rows = Operand(slot + group * 64 * kPanel * 2);
    const uint64_t weights = Operand(slot + Shape::kRowBytes);
    FenceWgmma();
#pragma unroll
    for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
      WgmmaBf16(sums, rows + step * kNextDepth, weights + step * kNextDepth);
    }
    CommitWgmma();
    WaitForWgmma<1>();
    if (s > 0 && peer < Shape::kTiles) {
      ArriveAt(shared + Shape::kEmpty + 8 * before, place.part + peer * kNgramParts);
    }
    before = ring.slot;
    ring.Next();
  }
  WaitForWgmma<0>();
}

// A thread's sums to where its columns' quarters lie.
template <typename Shape>
__device__ inline void StoreSums(std::byte* memory, const float (&sums)[Shape::kColumns / 2]) {
  const uint32_t thread = threadIdx.x - kWarpgroup, lane = thread % 32;
  const uint32_t row = thread / 32 * 16 + lane / 4;
#pragma unroll
  for (uint32_t j = 0; j < Shape::kColumns / 8; ++j) {
    const uint32_t column = 8 * j + lane % 4 * 2;
    auto* quarter =
        reinterpret_cast<float*>(memory + column / Shape::kQuarter * Shape::kQuarterBytes) +
        column % Shape::kQuarter;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      *reinterpret_cast<float2*>(quarter + (row + 8 * i) * Shape::kQuarter) =
          make_float2(sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
    }
  }
}

// Quarter threadIdx.x of the block's sums, to the other block that has this part.
template <typename Shape>
__device__ inline void SendQuarter(const SplitPlace& place, uint32_t shared) {
  const uint32_t quarter = threadIdx.x;
  if (quarter == place.part) return;  // stays where it is
  const uint32_t block = place.tile * kNgramParts + quarter;
  asm volatile(
      "{\n"
      ".reg .b32 to, barrier;\n"
      "mapa.shared::cluster.u32 to, %0, %4;\n"
      "mapa.shared::cluster.u32 barrier, %3, %4;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%1], %2, "
      "[barrier];\n"
      "}" ::"r"(shared + Shape::kReceived + place.part * Shape::kQuarterBytes),
      "r"(shared + quarter * Shape::kQuarterBytes), "r"(Shape::kQuarterBytes),
      "r"(shared + Shape::kSumsFull), "r"(block)
      : "memory");
}

// Adds the four parts of the block's quarter and the word rows.
template <typename Shape>
__device__ inline void Finish(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                              const std::byte* memory, const uint16_t* const* words) {
  constexpr uint32_t kRowPairs{Shape::kQuarter / 2};
  const NgramPlan& plan = a.model.plan;
  const uint32_t column0 = place.column + place.part * Shape::kQuarter;
  uint32_t word[Shape::kPairs];
#pragma unroll
  for (uint32_t i = 0; i < Shape::kPairs; ++i) {
    const uint32_t pair = threadIdx.x + i * Shape::kThreads;
    const uint32_t row = pair / kRowPairs, column = column0 + pair % kRowPairs * 2;
    word[i] = 0;
    if (row >= place.rows || column >= plan.hidden) continue;
    word[i] = __ldg(reinterpret_cast<const uint32_t*>(words[row]) + pair % kRowPairs);
  }
  WaitBarrier(shared + Shape::kSumsFull, 0);
#pragma unroll
  for (uint32_t i = 0; i < Shape::kPairs; ++i) {
    const uint32_t pair = threadIdx.x + i * Shape::kThreads;
    const uint32_t row = pair / kRowPairs, column = column0 + pair % kRowPairs * 2;
    if (row >= place.rows || column >= plan.hidden) continue;
    float2 total = make_float2(-0.0f, -0.0f);  // x + -0 is x for every x
#pragma unroll
    for (uint32_t part = 0; part < kNgramParts; ++part) {
      const std::byte* from =
          memory + (part == place.part ? 0 : Shape::kReceived) + part * Shape::kQuarterBytes;
      const float2 sum = reinterpret_cast<const float2*>(from)[pair];
      total = make_float2(__fadd_rn(total.x, sum.x), __fadd_rn(total.y, sum.y));
    }
    *reinterpret_cast<uint32_t*>(a.out + size_t{place.row0 + row} * plan.hidden + column) =
        WithWordRow(plan, word[i], total.x, total.y);
  }
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    NgramSplit(const __grid_constant__ SplitArguments a) {
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = SharedAddress(memory);
  const SplitPlace place = PlaceOf<Shape>(a);
  auto** words = reinterpret_cast<const uint16_t**>(memory + Shape::kWords);
  const uint32_t stages = (place.end - place.table) * (a.model.plan.width / kPanel);
  LetNextStart();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < Shape::kSlots; ++i) {
      InitBarrier(shared + Shape::kFull + 8 * i, 1);
      InitBarrier(shared + Shape::kEmpty + 8 * i, Shape::kGroups * Shape::kTiles);
    }
    InitBarrier(shared + Shape::kSumsFull, 1);
    PublishBarriers();
    ArriveExpecting(shared + Shape::kSumsFull, (kNgramParts - 1) * Shape::kQuarterBytes);
  }
  SyncCluster();
  if (threadIdx.x < kWarpgroup) {
    if (threadIdx.x == 0) CopyTile<Shape>(a, place, shared, stages);
    if (threadIdx.x >= 32) FindWords<Shape>(a, place, words);
  } else {
    WaitForPrevious();
    float sums[Shape::kColumns / 2] = {};
    Multiply<Shape>(shared, place, stages, sums);
    SyncThreads(2, Shape::kGroups * kWarpgroup);  // the slots are read
    StoreSums<Shape>(memory, sums);
    PublishShared();
  }
  SyncCluster();  // the others' slots too
  if (threadIdx.x < kNgramParts) SendQuarter<Shape>(place, shared);
  Finish<Shape>(a, place, shared, memory, words);
  SyncCluster();  // the other blocks may still read and write here
}

template <typename Shape>
cudaError_t LaunchTiles(const SplitArguments& a, cudaStream_t stream) {
  const cudaError_t allowed =
      cudaFuncSetAttribute(NgramSplit<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(Shape::kBytes));
  if (allowed != cudaSuccess) return allowed;
  const uint32_t columns = (a.model.plan.hidden + Shape::kColumns - 1) / Shape::kColumns;
  constexpr uint32_t kTokens{Shape::kRows * Shape::kTiles};
  return Launch(
      NgramSplit<Shape>,
      {.grid = dim3(columns * Shape::kCluster, (a.request.tokens + kTokens - 1) / kTokens),
       .threads = Shape::kThreads,
       .shared_bytes = Shape::kBytes,
       .cluster = Shape::kCluster,
       .overlap = true},
      stream, a);
}

}  // namespace

cudaError_t LaunchNgramSplit(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream) {
  const cudaError_t gathered = LaunchNgramGather(model, request, overlap, stream);
  if (gathered != cudaSuccess) return gathered;
  const SplitArguments a = {model, request, out, BatchCapacity(request.tokens)};
  if (request.tokens <= 64) return LaunchTiles<SmallSplit>(a, stream);
  if (request.tokens <= 128) return LaunchTiles<MiddleSplit>(a, stream);
  return LaunchTiles<LargeSplit>(a, stream);
}

}  // namespace sprat::gpu
