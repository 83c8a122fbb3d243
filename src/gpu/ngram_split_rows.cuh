// The rows of a block of the split kernel (ngram_split.cu): where they are, their way to shared
// memory, and from E4M3 to operands.
#ifndef SPRAT_GPU_NGRAM_SPLIT_ROWS_CUH_
#define SPRAT_GPU_NGRAM_SPLIT_ROWS_CUH_

#include "gpu/ngram_split.cuh"

namespace sprat::gpu {

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

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_SPLIT_ROWS_CUH_
