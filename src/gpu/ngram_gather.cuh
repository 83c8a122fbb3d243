// Gathers the table rows of a batch into panels, the operand of the batch kernel, while that kernel
// runs: the tokens are units that its blocks take from a queue, in order.
//
// A unit that is taken is finished by whoever took it, who waits for nobody. So a block may wait
// for units once it has seen them all taken, however few blocks of the kernel run at a time.
#ifndef SPRAT_GPU_NGRAM_GATHER_CUH_
#define SPRAT_GPU_NGRAM_GATHER_CUH_

#include "gpu/kernel_tools.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {

constexpr uint32_t kNoUnit{UINT32_MAX};

// What a team of threads shares.
struct GatherShared {
  const std::byte* from[kMostUnits * kUnitTokens * kNgramMostTables];
  float scale[kMostUnits * kUnitTokens * kNgramMostTables];
  uint32_t unit;
};

// Threads of a block that gather together; `barrier` is theirs.
struct GatherTeam {
  uint32_t thread;
  uint32_t threads;  // a multiple of 32
  uint32_t barrier;
};

struct GatherTarget {
  uint16_t* panels;    // of `capacity` rows
  uint32_t* queue;     // the next unit
  uint32_t* finished;  // units, by group of kGroupTokens tokens
  uint32_t capacity;
};

// The rows of tokens token0 .. token0 + count. A warp takes a row at a time, for E4M3 two; each
// thread has up to kAhead times 16 bytes under way.
template <bool kFp8, uint32_t kAhead>
__device__ inline void GatherTokens(const NgramModelView& model, const NgramRequest& request,
                                    const GatherTarget& target, uint32_t token0, uint32_t count,
                                    const GatherTeam& team, GatherShared& shared) {
  constexpr uint32_t kValues{kFp8 ? 16 : 8};  // in 16 bytes
  constexpr uint32_t kLanes{kFp8 ? 16 : 32};  // of a row
  const NgramPlan& plan = model.plan;
  const uint32_t rows = count * plan.tables;
  for (uint32_t i = team.thread; i < rows; i += team.threads) {
    const NgramTableEntry& entry = model.entries[i % plan.tables];
    const uint32_t id = TableRow(plan, entry, LoadWindow(model, request, token0 + i / plan.tables));
    shared.from[i] = RowOf(model, request, entry, id, token0 + i / plan.tables, i % plan.tables);
    if (kFp8) shared.scale[i] = entry.scales != nullptr ? __ldg(entry.scales + id) : entry.scale;
  }
  SyncThreads(team.barrier, team.threads);
  const uint32_t at_once = team.threads / kLanes, lane = team.thread % kLanes;
#pragma unroll 1
  for (uint32_t row0 = team.thread / kLanes; row0 < rows; row0 += at_once * kAhead) {
#pragma unroll 1
    for (uint32_t chunk = lane; chunk < plan.width / kValues; chunk += kLanes) {
      uint4 v[kAhead];
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t row = row0 + j * at_once;
        if (row < rows) v[j] = __ldg(reinterpret_cast<const uint4*>(shared.from[row]) + chunk);
      }
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t row = row0 + j * at_once;
        if (row >= rows) break;
        const uint32_t t = token0 + row / plan.tables;
        const uint32_t column = row % plan.tables * plan.width + chunk * kValues;
        const auto place = [&](uint32_t k) {
          return reinterpret_cast<uint4*>(target.panels + PanelOffset(t, k, target.capacity));
        };
        if constexpr (kFp8) {
          *place(column) = DecodeE4m3(make_uint2(v[j].x, v[j].y), shared.scale[row]);
          *place(column + 8) = DecodeE4m3(make_uint2(v[j].z, v[j].w), shared.scale[row]);
        } else {
          *place(column) = v[j];
        }
      }
    }
  }
}

// Gathers the units first .. first + count, as far as there are such, and says that they are
// finished.
template <uint32_t kAhead>
__device__ inline void GatherUnits(const NgramModelView& model, const NgramRequest& request,
                                   const GatherTarget& target, uint32_t first, uint32_t count,
                                   const GatherTeam& team, GatherShared& shared) {
  const uint32_t units = GatherUnitsOf(request.tokens);
  if (first >= units) return;
  const uint32_t token0 = first * kUnitTokens;
  const uint32_t tokens = min(count * kUnitTokens, request.tokens - token0);
  if (model.fp8) {
    GatherTokens<true, kAhead>(model, request, target, token0, tokens, team, shared);
  } else {
    GatherTokens<false, kAhead>(model, request, target, token0, tokens, team, shared);
  }
  asm volatile("fence.proxy.async;" ::: "memory");  // bulk copies will read it
  __threadfence();
  SyncThreads(team.barrier, team.threads);
  if (team.thread < count && first + team.thread < units) {
    const uint32_t group = (first + team.thread) * kUnitTokens / kGroupTokens;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(target.finished + group)
                 : "memory");
  }
}

// Takes `count` units, whichever come next, and gathers them.
template <uint32_t kAhead>
__device__ inline void GatherNext(const NgramModelView& model, const NgramRequest& request,
                                  const GatherTarget& target, uint32_t count,
                                  const GatherTeam& team, GatherShared& shared) {
  if (team.thread == 0) shared.unit = atomicAdd(target.queue, count);
  SyncThreads(team.barrier, team.threads);
  const uint32_t first = shared.unit;
  SyncThreads(team.barrier, team.threads);
  GatherUnits<kAhead>(model, request, target, first, count, team, shared);
}

// Takes and gathers unit after unit, until all before `limit` are taken by someone.
template <uint32_t kAhead>
__device__ inline void GatherUpTo(const NgramModelView& model, const NgramRequest& request,
                                  const GatherTarget& target, uint32_t limit,
                                  const GatherTeam& team, GatherShared& shared) {
  const uint32_t end = min(limit, GatherUnitsOf(request.tokens));
  for (;;) {
    if (team.thread == 0) {
      const bool all_taken = *static_cast<volatile uint32_t*>(target.queue) >= end;
      shared.unit = all_taken ? kNoUnit : atomicAdd(target.queue, 1);
    }
    SyncThreads(team.barrier, team.threads);
    const uint32_t unit = shared.unit;
    SyncThreads(team.barrier, team.threads);
    if (unit == kNoUnit) return;
    GatherUnits<kAhead>(model, request, target, unit, 1, team, shared);
  }
}

// Until all units of a group are finished; then bulk copies of this thread may read its rows.
__device__ inline void WaitForGroup(const NgramRequest& request, const GatherTarget& target,
                                    uint32_t group) {
  constexpr uint32_t kTries{100000000};
  const uint32_t units = GatherUnitsOf(request.tokens);
  const uint32_t first = group * (kGroupTokens / kUnitTokens);
  const uint32_t expected = first < units ? min(kGroupTokens / kUnitTokens, units - first) : 0;
  uint32_t found = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < kTries; ++i) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(found)
                 : "l"(target.finished + group)
                 : "memory");
    if (found >= expected) {
      asm volatile("fence.proxy.async;" ::: "memory");
      return;
    }
  }
  asm volatile("trap;");
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_GATHER_CUH_
