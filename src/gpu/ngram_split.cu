// Some tens or hundreds of tokens in one launch: too many for the query kernel, too few tiles for
// the batch kernel. The sum over k is split: the four blocks of a cluster (of eight: of each of two
// token tiles) have a part each of the same tile of rows times projections.
//
// One warp brings the projections, by bulk copies, in stages of 64 columns of k. The other warps
// hash the tokens of the tile for the tables of the part; then three warps gather their rows, stage
// by stage, by asynchronous copies; E4M3 rows are decoded by two warpgroups of their own, in turn.
// One or two warpgroups multiply. Then each sends to the other blocks the sums of their shares of
// the columns, adds those that it gets in the order of the parts, and stores its share.
#include <algorithm>

#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

constexpr uint32_t kPartTables{kNgramMostTables / kNgramParts};  // the most of a part

// Warpgroups: in the first three warps gather and the fourth brings the projections; the next two
// decode if rows are E4M3; the others multiply.
constexpr uint32_t kGatherThreads{96};
constexpr uint32_t kDecoders{2};

// kRowGroups warpgroups multiply 64 x kTileWidth each.
// kTokenTiles: in a cluster.
//   kWeightRing, kOperandRing, kCodeRing: stages of projections, of bf16 rows, and of E4M3 rows
//   that
//     shared memory holds.
//   kStages: that are multiplied at a time.
//   kRoom: what the block receives has a place of its own, not that of the rows.
template <uint32_t kRowGroups, uint32_t kTileWidth, uint32_t kTokenTiles, uint32_t kWeightRing,
          uint32_t kOperandRing, uint32_t kCodeRing, uint32_t kStages, bool kRoom>
struct SplitShape {
  static constexpr bool kFp8{kCodeRing > 0};
  static constexpr uint32_t kGroups{kRowGroups};
  static constexpr uint32_t kRows{64 * kRowGroups};
  static constexpr uint32_t kColumns{kTileWidth};
  static constexpr uint32_t kTiles{kTokenTiles};
  static constexpr uint32_t kCluster{kNgramParts * kTokenTiles};
  static constexpr uint32_t kStagesAtOnce{kStages};
  static constexpr uint32_t kFirstMultiplier{(kFp8 ? 1 + kDecoders : 1) * kWarpgroup};  // thread
  static constexpr uint32_t kThreads{kFirstMultiplier + kRowGroups * kWarpgroup};
  static constexpr uint32_t kHashThreads{kThreads - 32};
  // Threads that hash the same token, for a table each or for two.
  static constexpr uint32_t kTeam{std::min(kHashThreads / kRows, kPartTables)};
  static constexpr uint32_t kRounds{(kPartTables + kTeam - 1) / kTeam};
  // With so many threads those that multiply need registers of the others, and a product of all
  // columns is made in two.
  static constexpr bool kMoveRegisters{kThreads > 384 && kColumns > 104};
  static constexpr uint32_t kProducts{kMoveRegisters ? 2 : 1};

  // Columns in tiles of eight; a part finishes the tiles ShareBegin(part) .. ShareBegin(part + 1).
  static constexpr uint32_t kColumnTiles{kColumns / 8};
  __host__ __device__ static constexpr uint32_t ShareBegin(uint32_t part) {
    return part * kColumnTiles / kNgramParts;
  }
  static constexpr uint32_t kMostShare{(kColumnTiles + kNgramParts - 1) / kNgramParts};

  // Shared memory. A row of a stage is 64 values.
  static constexpr uint32_t kWeightSlots{kWeightRing};
  static constexpr uint32_t kWeightBytes{kColumns * kPanel * 2};
  static constexpr uint32_t kOperandSlots{kOperandRing};
  static constexpr uint32_t kOperandBytes{kRows * kPanel * 2};
  static constexpr uint32_t kCodeSlots{kCodeRing};
  static constexpr uint32_t kCodeBytes{kRows * kPanel};
  // Stages whose projections or rows have come may be as many as the longer ring holds.
  static constexpr uint32_t kFullSlots{kWeightRing > kOperandRing ? kWeightRing : kOperandRing};
  // Sums of a column tile from another part: 16 bytes of each thread that multiplies.
  static constexpr uint32_t kTileBytes{kGroups * kWarpgroup * 16};
  static constexpr uint32_t kRoomBytes{(kNgramParts - 1) * kMostShare * kTileBytes};
  static constexpr bool kOwnRoom{kRoom};
  static constexpr uint32_t kOperands{kWeightSlots * kWeightBytes};
  static constexpr uint32_t kCodes{kOperands + kOperandSlots * kOperandBytes};
  static constexpr uint32_t kCodesEnd{kCodes + kCodeSlots * kCodeBytes};
  static constexpr uint32_t kReceived{kRoom ? kCodesEnd : kOperands};
  static constexpr uint32_t kPlaces{kRoom ? kCodesEnd + kRoomBytes : kCodesEnd};
  static constexpr uint32_t kScales{kPlaces + kRows * kPartTables * 8};
  static constexpr uint32_t kFull{kScales + (kFp8 ? kRows * kPartTables * 4 : 0)};
  static constexpr uint32_t kWeightsEmpty{kFull + 8 * kFullSlots};
  static constexpr uint32_t kOperandsEmpty{kWeightsEmpty + 8 * kWeightSlots};
  static constexpr uint32_t kCodesFull{kOperandsEmpty + 8 * kOperandSlots};
  static constexpr uint32_t kCodesEmpty{kCodesFull + 8 * kCodeSlots};
  static constexpr uint32_t kScalesFull{kCodesEmpty + 8 * kCodeSlots};
  static constexpr uint32_t kSumsFull{kScalesFull + 8};
  static constexpr uint32_t kBytes{kSumsFull + 8};
  static_assert(kBytes <= 227 * 1024 && kReceived + kRoomBytes <= kPlaces);
  static_assert(kWeightBytes % 1024 == 0 && kOperandBytes % 1024 == 0);
};
// A thread's sums.
template <typename Shape>
using SplitSums = float[Shape::kProducts][Shape::kColumns / 2 / Shape::kProducts];
template <typename Shape>
__device__ inline float4 SumsOf(const SplitSums<Shape>& sums, uint32_t column_tile) {
  constexpr uint32_t kTiles{Shape::kColumnTiles / Shape::kProducts};
  const auto* v = &sums[column_tile / kTiles][column_tile % kTiles * 4];
  return make_float4(v[0], v[1], v[2], v[3]);
}

using SmallSplit = SplitShape<1, 104, 1, 8, 12, 0, 2, true>;
using MiddleSplit = SplitShape<1, kSplitColumns, 2, 4, 8, 0, 1, true>;
using LargeSplit = SplitShape<2, kSplitColumns, 2, 4, 6, 0, 1, false>;
using SmallSplitE4m3 = SplitShape<1, 104, 1, 8, 5, 12, 2, true>;
using MiddleSplitE4m3 = SplitShape<1, kSplitColumns, 2, 4, 4, 8, 1, true>;
using LargeSplitE4m3 = SplitShape<2, kSplitColumns, 2, 4, 3, 8, 1, false>;

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
  uint32_t table;   // first table
  uint32_t tables;
  uint32_t stages;
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
  place.tables = a.model.plan.PartBegin(place.part + 1) - place.table;
  place.stages = place.tables * (a.model.plan.width / kPanel);
  return place;
}

// --- Barriers ------------------------------------------------------------------------------------
// By one thread; the others use them after the cluster's first barrier.
template <typename Shape>
__device__ inline void InitBarriers(const SplitPlace& place, uint32_t shared) {
  // A stage is full by its projections and by all threads that gather, or warps that decode, its
  // rows.
  constexpr uint32_t kBringers{Shape::kFp8 ? kWarpgroup / 32 : kGatherThreads};
  for (uint32_t i = 0; i < Shape::kFullSlots; ++i) {
    InitBarrier(shared + Shape::kFull + 8 * i, 1 + kBringers);
  }
  for (uint32_t i = 0; i < Shape::kWeightSlots; ++i) {
    InitBarrier(shared + Shape::kWeightsEmpty + 8 * i, Shape::kGroups * Shape::kTiles);
  }
  for (uint32_t i = 0; i < Shape::kOperandSlots; ++i) {
    InitBarrier(shared + Shape::kOperandsEmpty + 8 * i, Shape::kGroups);
  }
  if constexpr (Shape::kFp8) {
    for (uint32_t i = 0; i < Shape::kCodeSlots; ++i) {
      InitBarrier(shared + Shape::kCodesFull + 8 * i, kGatherThreads);
      InitBarrier(shared + Shape::kCodesEmpty + 8 * i, kWarpgroup / 32);
    }
  }
  InitBarrier(shared + Shape::kScalesFull, Shape::kHashThreads);
  InitBarrier(shared + Shape::kSumsFull, 1);
  PublishBarriers();
  const uint32_t share = Shape::ShareBegin(place.part + 1) - Shape::ShareBegin(place.part);
  ArriveExpecting(shared + Shape::kSumsFull, (kNgramParts - 1) * share * Shape::kTileBytes);
}

// --- Projections ---------------------------------------------------------------------------------
// The block's share of a stage's projections, to the blocks that need them.
template <typename Shape>
__device__ inline void CopyWeights(const SplitArguments& a, const SplitPlace& place, uint32_t stage,
                                   uint32_t slot, uint32_t full) {
  const NgramPlan& plan = a.model.plan;
  const size_t panel = place.table * (plan.width / kPanel) + stage;
  const size_t row = panel * plan.PanelColumns() + place.column;
  ArriveExpecting(full, Shape::kWeightBytes);
  constexpr uint32_t kBytes{Shape::kWeightBytes / Shape::kTiles};
  const uint32_t to = slot + place.tile * kBytes;
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

// The stages first .. last, as slots become free. One thread.
template <typename Shape>
__device__ inline void BringWeights(const SplitArguments& a, const SplitPlace& place,
                                    uint32_t shared, uint32_t first, uint32_t last) {
  auto ring = Ring<Shape::kWeightSlots>::At(first);
  auto full = Ring<Shape::kFullSlots>::At(first);
#pragma unroll 1
  for (uint32_t s = first; s < last; ++s) {
    if (s >= Shape::kWeightSlots) {
      WaitBarrier(shared + Shape::kWeightsEmpty + 8 * ring.slot, ring.phase ^ 1);
    }
    CopyWeights<Shape>(a, place, s, shared + ring.slot * Shape::kWeightBytes,
                       shared + Shape::kFull + 8 * full.slot);
    ring.Next();
    full.Next();
  }
}

// --- Rows ----------------------------------------------------------------------------------------
// Finds where the rows of the block's tokens and tables are; scales of E4M3 rows come to shared
// memory by asynchronous copies.
template <typename Shape>
struct RowFinder {
  uint32_t row;     // of the tile
  uint32_t member;  // of the row's team: for the tables member, member + kTeam ..
  NgramStops stops;
  NgramTableEntry entry[Shape::kRounds];

  // What does not depend on the kernel before.
  __device__ RowFinder(const SplitArguments& a, const SplitPlace& place)
      : stops(LoadStops(a.model)) {
    const uint32_t thread = threadIdx.x - (threadIdx.x >= kWarpgroup ? 32 : 0);
    row = thread / Shape::kTeam;
    member = thread % Shape::kTeam;
#pragma unroll
    for (uint32_t j = 0; j < Shape::kRounds; ++j) {
      const uint32_t table = member + j * Shape::kTeam;
      if (row < place.rows && table < place.tables) {
        entry[j] = a.model.entries[place.table + table];
      }
    }
  }
  __device__ void Find(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                       std::byte* memory) const {
    if (row >= place.rows) return;
    const uint32_t t = place.row0 + row;
    const NgramWindow window = LoadWindow(a.model, a.request, stops, t);
    auto** places = reinterpret_cast<const std::byte**>(memory + Shape::kPlaces);
#pragma unroll
    for (uint32_t j = 0; j < Shape::kRounds; ++j) {
      const uint32_t table = member + j * Shape::kTeam;
      if (table >= place.tables) break;
      const uint32_t id = TableRow(a.model.plan, entry[j], window);
      const uint32_t i = row * place.tables + table;
      places[i] = RowOf(a.model, a.request, entry[j], id, t, place.table + table);
      if constexpr (Shape::kFp8) {
        const uint32_t to = shared + Shape::kScales + 4 * i;
        if (entry[j].scales != nullptr) {
          CopyAsync4(to, entry[j].scales + id);
        } else {
          StoreShared(to, __float_as_uint(entry[j].scale));
        }
      }
    }
  }
};

// Three warps gather: 16 bytes a thread, the threads of a row side by side. E4M3 rows go to the
// warps that decode, bf16 rows to those that multiply.
template <typename Shape>
__device__ inline void GatherRows(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                                  const std::byte* memory) {
  constexpr uint32_t kStageBytes{kPanel * (Shape::kFp8 ? 1 : 2)};  // of a row
  constexpr uint32_t kChunks{kStageBytes / 16}, kAtOnce{kGatherThreads / kChunks};
  constexpr uint32_t kRounds{(Shape::kRows + kAtOnce - 1) / kAtOnce};
  constexpr uint32_t kSlots{Shape::kFp8 ? Shape::kCodeSlots : Shape::kOperandSlots};
  constexpr uint32_t kSlotBytes{Shape::kFp8 ? Shape::kCodeBytes : Shape::kOperandBytes};
  constexpr uint32_t kFull{Shape::kFp8 ? Shape::kCodesFull : Shape::kFull};
  constexpr uint32_t kEmpty{Shape::kFp8 ? Shape::kCodesEmpty : Shape::kOperandsEmpty};
  const uint32_t panels = a.model.plan.width / kPanel;
  const uint32_t first = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
  const auto* const* places = reinterpret_cast<const std::byte* const*>(memory + Shape::kPlaces);
  const uint32_t slots = shared + (Shape::kFp8 ? Shape::kCodes : Shape::kOperands);
  Ring<kSlots> ring;
  Ring<Shape::kFp8 ? kSlots : Shape::kFullSlots> full;
  uint32_t stage = 0;
#pragma unroll 1
  for (uint32_t table = 0; table < place.tables; ++table) {
    const std::byte* from[kRounds];
#pragma unroll
    for (uint32_t j = 0; j < kRounds; ++j) {
      const uint32_t row = first + j * kAtOnce;
      from[j] = nullptr;
      if (row < place.rows) from[j] = places[row * place.tables + table] + chunk * 16;
    }
#pragma unroll 1
    for (uint32_t panel = 0; panel < panels; ++panel, ++stage) {
      if (stage >= kSlots) WaitBarrier(shared + kEmpty + 8 * ring.slot, ring.phase ^ 1);
      const uint32_t slot = slots + ring.slot * kSlotBytes;
#pragma unroll
      for (uint32_t j = 0; j < kRounds; ++j) {
        const uint32_t row = first + j * kAtOnce;
        const uint32_t column = (Shape::kFp8 ? chunk : chunk ^ row % 8) * 16;
        if (from[j] != nullptr) {
          CopyAsync(slot + row * kStageBytes + column, from[j] + panel * kStageBytes);
        }
      }
      ArriveAfterCopies(shared + kFull + 8 * full.slot);
      ring.Next();
      full.Next();
    }
  }
}

// Warpgroups decode E4M3 rows into operands, a stage each in turn: 16 values a thread at a time,
// four threads a row.
template <typename Shape>
__device__ inline void DecodeRows(const SplitArguments& a, const SplitPlace& place, uint32_t shared,
                                  const std::byte* memory) {
  constexpr uint32_t kAtOnce{kWarpgroup / 4}, kRounds{Shape::kRows / kAtOnce};
  const uint32_t panels = a.model.plan.width / kPanel;
  const uint32_t decoder = __shfl_sync(~0u, threadIdx.x / kWarpgroup - 1, 0);
  const uint32_t thread = threadIdx.x % kWarpgroup, first = thread / 4, chunk = thread % 4;
  const auto* scales = reinterpret_cast<const float*>(memory + Shape::kScales);
  const uint32_t low = first * kPanel * 2 + (2 * chunk ^ first % 8) * 16;
  auto codes = Ring<Shape::kCodeSlots>::At(decoder);
  auto operands = Ring<Shape::kOperandSlots>::At(decoder);
  auto full = Ring<Shape::kFullSlots>::At(decoder);
  uint32_t table = decoder / panels, panel = decoder % panels;
  WaitBarrier(shared + Shape::kScalesFull, 0);
#pragma unroll 1
  for (uint32_t s = decoder; s < place.stages; s += kDecoders) {
    WaitBarrier(shared + Shape::kCodesFull + 8 * codes.slot, codes.phase);
    uint4 v[kRounds];
    float scale[kRounds];
#pragma unroll
    for (uint32_t j = 0; j < kRounds; ++j) {
      v[j] = LoadShared128(shared + Shape::kCodes + codes.slot * Shape::kCodeBytes +
                           (thread + j * kWarpgroup) * 16);
      scale[j] = scales[(first + j * kAtOnce) * place.tables + table];
    }
    if (s >= Shape::kOperandSlots) {
      WaitBarrier(shared + Shape::kOperandsEmpty + 8 * operands.slot, operands.phase ^ 1);
    }
    const uint32_t operand = shared + Shape::kOperands + operands.slot * Shape::kOperandBytes + low;
#pragma unroll
    for (uint32_t j = 0; j < kRounds; ++j) {
      const uint32_t to = operand + j * kAtOnce * kPanel * 2;
      StoreShared(to, DecodeE4m3(make_uint2(v[j].x, v[j].y), scale[j]));
      StoreShared(to ^ 16, DecodeE4m3(make_uint2(v[j].z, v[j].w), scale[j]));
    }
    PublishShared();
    __syncwarp();
    if (thread % 32 == 0) {
      Arrive(shared + Shape::kFull + 8 * full.slot);
      if (s + Shape::kCodeSlots < place.stages) {
        Arrive(shared + Shape::kCodesEmpty + 8 * codes.slot);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kDecoders; ++i) {
      codes.Next();
      operands.Next();
      full.Next();
      if (++panel == panels) panel = 0, ++table;
    }
  }
}

// --- Products ------------------------------------------------------------------------------------
// A thread's place among those that multiply.
struct MultiplyPlace {
  uint32_t thread;  // of all that multiply
  uint32_t group;   // of 64 rows
  uint32_t peer;    // thread of the group
  uint32_t row;     // its first row in the tile; the second is 8 further
};
template <typename Shape>
__device__ inline MultiplyPlace MultiplyPlaceOf() {
  MultiplyPlace at;
  at.thread = threadIdx.x - Shape::kFirstMultiplier;
  at.group = __shfl_sync(~0u, at.thread / kWarpgroup, 0);
  at.peer = at.thread % kWarpgroup;
  at.row = at.group * 64 + at.peer / 32 * 16 + at.peer % 32 / 4;
  return at;
}

template <typename Shape>
__device__ inline void Multiply(const SplitPlace& place, const MultiplyPlace& at, uint32_t shared,
                                SplitSums<Shape>& sums) {
  constexpr uint32_t kAtOnce{Shape::kStagesAtOnce};
  constexpr uint32_t kProductBytes{Shape::kWeightBytes / Shape::kProducts};
  const uint32_t rows = shared + Shape::kOperands + at.group * 64 * kPanel * 2;
  // The blocks that bring the block's projections need to know when a slot is free.
  const uint32_t weights_empty =
      InBlock(shared + Shape::kWeightsEmpty, place.part + at.peer % Shape::kTiles * kNgramParts);
  Ring<Shape::kFullSlots> full;
  Ring<Shape::kOperandSlots> operands, free_operands;
  Ring<Shape::kWeightSlots> weights, free_weights;
#pragma unroll 1
  for (uint32_t first = 0; first < place.stages; first += kAtOnce) {
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i >= place.stages) break;
      WaitBarrier(shared + Shape::kFull + 8 * full.slot, full.phase);
      full.Next();
    }
    if (!Shape::kFp8) PublishShared();  // what cp.async has brought
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t s = first + i;
      if (s >= place.stages) break;
      const uint64_t a = Operand(rows + operands.slot * Shape::kOperandBytes);
      const uint32_t b = shared + weights.slot * Shape::kWeightBytes;
      FenceWgmma();
#pragma unroll
      for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
#pragma unroll
        for (uint32_t n = 0; n < Shape::kProducts; ++n) {
          WgmmaBf16(sums[n], a + step * kNextDepth,
                    Operand(b + n * kProductBytes) + step * kNextDepth);
        }
      }
      CommitWgmma();
      operands.Next();
      weights.Next();
      WaitForWgmma<1>();  // the stage before is read: where someone waits for its slots, say so
      if (s == 0) continue;
      if (at.peer == 0 && s - 1 + Shape::kOperandSlots < place.stages) {
        Arrive(shared + Shape::kOperandsEmpty + 8 * free_operands.slot);
      }
      if (at.peer < Shape::kTiles && s - 1 + Shape::kWeightSlots < place.stages) {
        ArriveThere(weights_empty + 8 * free_weights.slot);
      }
      free_operands.Next();
      free_weights.Next();
    }
  }
  WaitForWgmma<0>();
}

// --- Sums ----------------------------------------------------------------------------------------
// The word rows of the thread's two rows from the block's share of the columns on, where the tile
// has such rows; what is needed of them is brought to the L2.
template <typename Shape>
__device__ inline void FindWords(const SplitArguments& a, const SplitPlace& place,
                                 const MultiplyPlace& at, const uint16_t* (&words)[2]) {
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    words[i] = nullptr;
    if (at.row + 8 * i >= place.rows) continue;
    words[i] = WordRow(a.model, a.request, place.row0 + at.row + 8 * i);
    const uint32_t column = place.column + Shape::ShareBegin(place.part) * 8 + at.peer % 4 * 16;
    if (column < a.model.plan.hidden) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(words[i] + column));
    }
  }
}

// Sends the sums of the other blocks' shares to them.
template <typename Shape>
__device__ inline void SendSums(const SplitPlace& place, const MultiplyPlace& at, uint32_t shared,
                                const SplitSums<Shape>& sums) {
#pragma unroll
  for (uint32_t share = 0; share < kNgramParts; ++share) {
    if (share == place.part) continue;
    const uint32_t block = place.tile * kNgramParts + share;
    const uint32_t sender = place.part - (place.part > share ? 1 : 0);  // among the other three
    const uint32_t to = InBlock(
        shared + Shape::kReceived + sender * Shape::kMostShare * Shape::kTileBytes + at.thread * 16,
        block);
    const uint32_t barrier = InBlock(shared + Shape::kSumsFull, block);
#pragma unroll
    for (uint32_t j = Shape::ShareBegin(share); j < Shape::ShareBegin(share + 1); ++j) {
      StoreInBlock(to + (j - Shape::ShareBegin(share)) * Shape::kTileBytes, SumsOf<Shape>(sums, j),
                   barrier);
    }
  }
}

// Adds the four parts of the block's share and the word rows.
template <typename Shape>
__device__ inline void Finish(const SplitArguments& a, const SplitPlace& place,
                              const MultiplyPlace& at, uint32_t shared,
                              const uint16_t* const (&words)[2], const SplitSums<Shape>& sums) {
  const NgramPlan& plan = a.model.plan;
  const uint32_t first = Shape::ShareBegin(place.part);
  const auto column_of = [&](uint32_t i) {
    return place.column + (first + i) * 8 + at.peer % 4 * 2;
  };
  uint32_t word[Shape::kMostShare][2];
#pragma unroll
  for (uint32_t i = 0; i < Shape::kMostShare; ++i) {
#pragma unroll
    for (uint32_t row = 0; row < 2; ++row) {
      word[i][row] = 0;
      if (words[row] == nullptr || column_of(i) >= plan.hidden) continue;
      word[i][row] = __ldg(reinterpret_cast<const uint32_t*>(words[row] + column_of(i)));
    }
  }
  WaitBarrier(shared + Shape::kSumsFull, 0);
#pragma unroll
  for (uint32_t share = 0; share < kNgramParts; ++share) {
    if (share != place.part) continue;
#pragma unroll
    for (uint32_t i = 0; i < Shape::ShareBegin(share + 1) - Shape::ShareBegin(share); ++i) {
      const uint32_t j = Shape::ShareBegin(share) + i;
      float4 total = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);  // x + -0 is x for every x
#pragma unroll
      for (uint32_t part = 0; part < kNgramParts; ++part) {
        const uint32_t sender = part - (part > share ? 1 : 0);
        const float4 v =
            part == share
                ? SumsOf<Shape>(sums, j)
                : LoadShared(shared + Shape::kReceived +
                             (sender * Shape::kMostShare + i) * Shape::kTileBytes + at.thread * 16);
        total.x = __fadd_rn(total.x, v.x), total.y = __fadd_rn(total.y, v.y);
        total.z = __fadd_rn(total.z, v.z), total.w = __fadd_rn(total.w, v.w);
      }
      const uint32_t column = column_of(i);
      if (column >= plan.hidden) continue;
      uint16_t* out = a.out + size_t{place.row0 + at.row} * plan.hidden + column;
      if (words[0] != nullptr) {
        *reinterpret_cast<uint32_t*>(out) = WithWordRow(plan, word[i][0], total.x, total.y);
      }
      if (words[1] != nullptr) {
        *reinterpret_cast<uint32_t*>(out + size_t{8} * plan.hidden) =
            WithWordRow(plan, word[i][1], total.z, total.w);
      }
    }
  }
}

template <typename Shape>
__device__ inline void MultiplyAndFinish(const SplitArguments& a, const SplitPlace& place,
                                         uint32_t shared) {
  const MultiplyPlace at = MultiplyPlaceOf<Shape>();
  const uint16_t* words[2];
  FindWords<Shape>(a, place, at, words);
  SplitSums<Shape> sums = {};
  Multiply<Shape>(place, at, shared, sums);
  if constexpr (!Shape::kOwnRoom) SyncCluster();  // all rows are read
  SendSums<Shape>(place, at, shared, sums);
  Finish<Shape>(a, place, at, shared, words, sums);
}

// A block ends only when all that others send to it has come: projections and sums that it waits
// for, and arrivals on barriers that it waits for.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    NgramSplit(const __grid_constant__ SplitArguments a) {
  extern __shared__ __align__(1024) std::byte memory[];
  uint32_t shared = SharedAddress(memory);
  asm volatile("" : "+r"(shared));  // to be kept, not computed again and again
  const SplitPlace place = PlaceOf<Shape>(a);
  const uint32_t warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  const bool brings = threadIdx.x == kGatherThreads;  // the projections
  const uint32_t first_stages = min(place.stages, Shape::kWeightSlots);
  LetNextStart();
  if (brings) InitBarriers<Shape>(place, shared);
  __syncwarp();
  ArriveCluster();
  if (warp == kGatherThreads / 32) {
    if (Shape::kTiles > 1) WaitCluster();  // projections go to other blocks too
    if (brings) BringWeights<Shape>(a, place, shared, 0, first_stages);
    __syncwarp();
    WaitForPrevious();
    if (Shape::kTiles == 1) WaitCluster();
  } else {
    const RowFinder<Shape> finder(a, place);
    WaitForPrevious();
    finder.Find(a, place, shared, memory);
    __syncwarp();
    WaitCluster();
    if constexpr (Shape::kFp8) ArriveAfterCopies(shared + Shape::kScalesFull);
    SyncThreads(1, Shape::kHashThreads);
  }
  if (threadIdx.x < Shape::kFirstMultiplier) {
    if constexpr (Shape::kMoveRegisters) GiveRegisters<48>();
    if (brings) BringWeights<Shape>(a, place, shared, first_stages, place.stages);
    if (warp < kGatherThreads / 32) GatherRows<Shape>(a, place, shared, memory);
    if constexpr (Shape::kFp8) {
      if (warp >= kWarpgroup / 32) DecodeRows<Shape>(a, place, shared, memory);
    }
    __syncwarp();
    if constexpr (!Shape::kOwnRoom) SyncCluster();
  } else {
    if constexpr (Shape::kMoveRegisters) TakeRegisters<168>();
    MultiplyAndFinish<Shape>(a, place, shared);
  }
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

template <typename Small, typename Middle, typename Large>
cudaError_t LaunchBest(const SplitArguments& a, bool overlap, cudaStream_t stream) {
  if (a.request.tokens <= 64) return LaunchTiles<Small>(a, overlap, stream);
  if (a.request.tokens <= 128) return LaunchTiles<Middle>(a, overlap, stream);
  return LaunchTiles<Large>(a, overlap, stream);
}

}  // namespace

cudaError_t LaunchNgramSplit(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream) {
  const SplitArguments a = {model, request, out};
  return model.fp8 ? LaunchBest<SmallSplitE4m3, MiddleSplitE4m3, LargeSplitE4m3>(a, overlap, stream)
                   : LaunchBest<SmallSplit, MiddleSplit, LargeSplit>(a, overlap, stream);
}

}  // namespace sprat::gpu
