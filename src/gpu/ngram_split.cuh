// How a block of the split kernel (ngram_split.cu) divides its threads and its shared memory, its
// share of the work, and the projections that one of its warps brings.
#ifndef SPRAT_GPU_NGRAM_SPLIT_CUH_
#define SPRAT_GPU_NGRAM_SPLIT_CUH_

#include <algorithm>

#include "gpu/kernel_tools.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {

constexpr uint32_t kPartTables{kNgramMostTables / kNgramParts};  // the most of a part

// Warpgroups: in the first three warps gather and the fourth brings the projections; the next two
// decode if rows are E4M3; the others multiply.
constexpr uint32_t kGatherThreads{96};
constexpr uint32_t kDecoders{2};

// How a block divides its threads and its shared memory.
//   kRowGroups: warpgroups that multiply, 64 x kTileWidth each. kTokenTiles: in a cluster.
//   kWeightRing, kOperandRing, kCodeRing: stages of projections, of bf16 rows, and of E4M3 rows
//     (0: there are none) that shared memory holds.
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

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_SPLIT_CUH_
