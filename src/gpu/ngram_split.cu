// Some tens or hundreds of tokens in one launch: too many for the query kernel, too few tiles for
// the batch kernel. The sum over k is split: the four blocks of a cluster (of eight: of each of two
// token tiles) have a part each of the same tile of rows times projections. A block hashes the
// tokens of its tile for the tables of its part and gathers their rows, stage by stage, straight
// into the operand of wgmma, while bulk copies bring the projections. Then each block sends to the
// others the sums of their quarters of the columns, adds those that it gets in the order of the
// parts, and stores its quarter.
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

constexpr uint32_t kPartTables{kNgramMostTables / kNgramParts};  // the most of a part

// kRowGroups warpgroups multiply 64 x kColumns each; one gathers. kTokenTiles: in a cluster.
//   kRoom: what the block receives has a place of its own, not that of the slots.
template <uint32_t kRowGroups, uint32_t kTileWidth, uint32_t kTokenTiles, uint32_t kRing,
          bool kRoom>
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
  // The block's sums take the place of the slots, quarter by quarter; those that it gets, too.
  static constexpr uint32_t kQuarterBytes{kRows * kQuarter * 4};
  static constexpr bool kOwnRoom{kRoom};
  static constexpr uint32_t kReceived{kRoom ? kSlots * kSlotBytes : kNgramParts * kQuarterBytes};
  static constexpr uint32_t kWords{kSlots * kSlotBytes + (kRoom ? kNgramParts * kQuarterBytes : 0)};
  static constexpr uint32_t kPlaces{kWords + kRows * 8};  // of rows, kPartTables a token
  static constexpr uint32_t kScales{kPlaces + kRows * kPartTables * 8};
  static constexpr uint32_t kFull{kScales + kRows * kPartTables * 4};
  static constexpr uint32_t kEmpty{kFull + 8 * kSlots};
  static constexpr uint32_t kSumsFull{kEmpty + 8 * kSlots};
  static constexpr uint32_t kBytes{kSumsFull + 8};
  static_assert(kBytes <= 227 * 1024 && kReceived + kNgramParts * kQuarterBytes <= kWords);
};
using SmallSplit = SplitShape<1, 104, 1, 8, true>;
using MiddleSplit = SplitShape<2, 104, 1, 7, false>;
using LargeSplit = SplitShape<2, kSplitColumns, 2, 5, false>;

struct SplitArguments {
  NgramModelView model;
  NgramRequest request;
  uint16_t* out;
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
  ArriveExpecting(full, Shape::kWeightBytes);
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

// Where the rows of the block's tokens and tables are; of E4M3 also their scales, which the caller
// may use once all threads have stored theirs.
template <typename Shape>
struct RowFinder {
  static constexpr uint32_t kRounds{(Shape::kRows * kPartTables + Shape::kThreads - 1) /
                                    Shape::kThreads};
  float scale[kRounds];

  __device__ void Find(const SplitArguments& a, const SplitPlace& place, std::byte* memory) {
    const uint32_t tables = place.end - place.table;
    const uint32_t row_bytes = a.model.plan.width * (a.model.fp8 ? 1 : 2);
    auto** places = reinterpret_cast<const std::byte**>(memory + Shape::kPlaces);
#pragma unroll
    for (uint32_t j = 0; j < kRounds; ++j) {
      const uint32_t i = threadIdx.x + j * Shape::kThreads;
      if (i >= place.rows * tables) break;
      const uint32_t t = place.row0 + i / tables;
      const NgramTableEntry entry = a.model.entries[place.table + i % tables];
      const uint32_t id = TableRow(a.model.plan, entry, LoadWindow(a.model, a.request, t));
      places[i] = entry.rows + size_t{id} * row_bytes;
      scale[j] = 1.0f;
      if (a.model.fp8) scale[j] = entry.scales != nullptr ? __ldg(entry.scales + id) : entry.scale;
    }
  }
  __device__ void StoreScales(const SplitPlace& place, std::byte* memory) {
    auto* scales = reinterpret_cast<float*>(memory + Shape::kScales);
#pragma unroll
    for (uint32_t j = 0; j < kRounds; ++j) {
      const uint32_t i = threadIdx.x + j * Shape::kThreads;
      if (i < place.rows * (place.end - place.table)) scales[i] = scale[j];
    }
  }
};

// Brings the projections of the first stages, which do not depend on the kernel before. One thread.
template <typename Shape>
__device__ inline void StartWeights(const SplitArguments& a, const SplitPlace& place,
                                    uint32_t shared, uint32_t stages) {
  for (uint32_t s = 0; s < min(stages, Shape::kSlots); ++s) {
    CopyWeights<Shape>(a, place, s, shared + s * Shape::kSlotBytes, shared + Shape::kFull + 8 * s);
  }
}

// Before a stage's rows are written: its slot is free. One thread brings the projections.
template <typename Shape>
__device__ inline void TakeSlot(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                                uint32_t stage, const Ring<Shape::kSlots>& ring) {
  if (stage < Shape::kSlots) return;
  WaitBarrier(shared + Shape::kEmpty + 8 * ring.slot, ring.phase ^ 1);
  if (threadIdx.x == 0) {
    CopyWeights<Shape>(a, place, stage, shared + ring.slot * Shape::kSlotBytes,
                       shared + Shape::kFull + 8 * ring.slot);
  }
}

// A warpgroup gathers bf16 rows: eight threads take 64 values of a row, 16 bytes each.
template <typename Shape>
__device__ inline void GatherBf16(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                                  const std::byte* memory, uint32_t stages) {
  constexpr uint32_t kAtOnce{kWarpgroup / 8};
  const uint32_t tables = place.end - place.table, panels = a.model.plan.width / kPanel;
  const uint32_t first = threadIdx.x / 8, chunk = threadIdx.x % 8;
  const auto* const* places = reinterpret_cast<const std::byte* const*>(memory + Shape::kPlaces);
  const uint32_t to = first * kPanel * 2 + (chunk ^ first % 8) * 16;
  Ring<Shape::kSlots> ring;
  uint32_t table = 0, panel = 0;
#pragma unroll 1
  for (uint32_t s = 0; s < stages; ++s) {
    TakeSlot<Shape>(a, place, shared, s, ring);
    const uint32_t slot = shared + ring.slot * Shape::kSlotBytes + to;
#pragma unroll
    for (uint32_t j = 0; j < Shape::kRows / kAtOnce; ++j) {
      const uint32_t row = first + j * kAtOnce;
      if (row >= place.rows) break;
      CopyAsync(slot + j * kAtOnce * kPanel * 2,
                places[row * tables + table] + panel * kPanel * 2 + chunk * 16);
    }
    ArriveAfterCopies(shared + Shape::kFull + 8 * ring.slot);
    if (++panel == panels) panel = 0, ++table;
    ring.Next();
  }
}

// The same of E4M3 rows, for warpgroup `group` of the block: four threads take 64 values of a row,
// 16 bytes each, some stages ahead. The warpgroups take the stages that the free slots hold in
// turn; the first one then those after.
template <typename Shape>
__device__ inline void GatherE4m3(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                                  RowFinder<Shape>& finder, std::byte* memory, uint32_t stages,
                                  uint32_t group) {
  constexpr uint32_t kAtOnce{kWarpgroup / 4}, kLoads{Shape::kRows / kAtOnce}, kAhead{8 / kLoads};
  constexpr uint32_t kTeams{1 + Shape::kGroups};
  const uint32_t tables = place.end - place.table, panels = a.model.plan.width / kPanel;
  const uint32_t first = threadIdx.x % kWarpgroup / 4, chunk = threadIdx.x % 4;
  const auto* const* places = reinterpret_cast<const std::byte* const*>(memory + Shape::kPlaces);
  const auto* scales = reinterpret_cast<const float*>(memory + Shape::kScales);
  const uint32_t to = first * kPanel * 2, low = (2 * chunk ^ first % 8) * 16;
  const uint32_t free = min(stages, Shape::kSlots);
  const uint32_t shares = free > group ? (free - group + kTeams - 1) / kTeams : 0;
  const uint32_t count = shares + (group == 0 ? stages - free : 0);
  const auto stage_of = [&](uint32_t i) {
    return i < shares ? group + i * kTeams : free + i - shares;
  };
  uint4 codes[kAhead][kLoads];
  const auto load = [&](uint4(&into)[kLoads], uint32_t stage) {
#pragma unroll
    for (uint32_t j = 0; j < kLoads; ++j) {
      const uint32_t row = first + j * kAtOnce;
      if (row >= place.rows) break;
      const std::byte* from = places[row * tables + stage / panels];
      into[j] = __ldg(reinterpret_cast<const uint4*>(from + stage % panels * kPanel) + chunk);
    }
  };
#pragma unroll
  for (uint32_t i = 0; i < kAhead; ++i) {
    if (i < count) load(codes[i], stage_of(i));
  }
  finder.StoreScales(place, memory);
  __syncthreads();
#pragma unroll 1
  for (uint32_t i0 = 0; i0 < count; i0 += kAhead) {
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (i0 + i >= count) break;
      const uint32_t s = stage_of(i0 + i);
      const Ring<Shape::kSlots> ring = Ring<Shape::kSlots>::At(s);
      TakeSlot<Shape>(a, place, shared, s, ring);
      const uint32_t slot = shared + ring.slot * Shape::kSlotBytes + to;
#pragma unroll
      for (uint32_t j = 0; j < kLoads; ++j) {
        const uint32_t row = first + j * kAtOnce;
        if (row >= place.rows) break;
        const float scale = scales[row * tables + s / panels];
        const uint32_t at = slot + j * kAtOnce * kPanel * 2;
        StoreShared(at + low, DecodeE4m3(make_uint2(codes[i][j].x, codes[i][j].y), scale));
        StoreShared(at + (low ^ 16), DecodeE4m3(make_uint2(codes[i][j].z, codes[i][j].w), scale));
      }
      if (i0 + i + kAhead < count) load(codes[i], stage_of(i0 + i + kAhead));
      PublishShared();
      Arrive(shared + Shape::kFull + 8 * ring.slot);
    }
  }
}

// The warpgroups that multiply find the word rows first, and bring what is needed of them to the
// L2.
template <typename Shape>
__device__ inline void FindWords(const SplitArguments& a, const SplitPlace& place,
                                 const uint16_t** words) {
  const uint32_t column = place.column + place.part * Shape::kQuarter;
  const uint32_t row = threadIdx.x - kWarpgroup;
  if (row >= place.rows) return;
  words[row] = WordRow(a.model, a.request, place.row0 + row) + column;
  if (column < a.model.plan.hidden) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(words[row]));
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
    PublishShared();  // what cp.async has brought
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
  const uint32_t warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  LetNextStart();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < Shape::kSlots; ++i) {
      // Full: the projections, and each thread that gathers.
      InitBarrier(shared + Shape::kFull + 8 * i, 1 + kWarpgroup);
      InitBarrier(shared + Shape::kEmpty + 8 * i, Shape::kGroups * Shape::kTiles);
    }
    InitBarrier(shared + Shape::kSumsFull, 1);
    PublishBarriers();
    ArriveExpecting(shared + Shape::kSumsFull, (kNgramParts - 1) * Shape::kQuarterBytes);
  }
  __syncwarp();
  ArriveCluster();
  if (warp == 0) {  // projections first; they may go to the other blocks too
    WaitCluster();
    if (threadIdx.x == 0) StartWeights<Shape>(a, place, shared, stages);
    __syncwarp();
  }
  WaitForPrevious();
  RowFinder<Shape> finder;
  finder.Find(a, place, memory);
  __syncwarp();
  if (warp != 0) WaitCluster();
  __syncthreads();
  if (a.model.fp8) {
    GatherE4m3<Shape>(a, place, shared, finder, memory, stages, warp / (kWarpgroup / 32));
  } else if (threadIdx.x < kWarpgroup) {
    GatherBf16<Shape>(a, place, shared, memory, stages);
  }
  __syncwarp();
  if (threadIdx.x >= kWarpgroup) {
    FindWords<Shape>(a, place, words);
    __syncwarp();
    float sums[Shape::kColumns / 2] = {};
    Multiply<Shape>(shared, place, stages, sums);
    SyncThreads(2, Shape::kGroups * kWarpgroup);  // the slots are read
    StoreSums<Shape>(memory, sums);
    PublishShared();
  }
  if constexpr (Shape::kOwnRoom) {
    __syncthreads();
  } else {
    SyncCluster();  // the others' slots are read too
  }
  if (threadIdx.x < kNgramParts) SendQuarter<Shape>(place, shared);
  Finish<Shape>(a, place, shared, memory, words);
  SyncCluster();  // the other blocks have got what comes from here
}

template <typename Shape>
cudaError_t LaunchTiles(const SplitArguments& a, bool overlap, cudaStream_t stream) {
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
       .overlap = overlap},
      stream, a);
}

}  // namespace

cudaError_t LaunchNgramSplit(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream) {
  const SplitArguments a = {model, request, out};
  if (request.tokens <= 64) return LaunchTiles<SmallSplit>(a, overlap, stream);
  if (request.tokens <= 128) return LaunchTiles<MiddleSplit>(a, overlap, stream);
  return LaunchTiles<LargeSplit>(a, overlap, stream);
}

}  // namespace sprat::gpu
