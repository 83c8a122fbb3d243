// What the tile path's kernels use: Hopper's bulk copies, transaction barriers and wgmma under
// names. Compute capability 9.0 only (compile for sm_90a).
#ifndef SPRAT_GPU_TILE_TOOLS_CUH_
#define SPRAT_GPU_TILE_TOOLS_CUH_

#include <cstdint>

#include "gpu/kernel_tools.cuh"

namespace sprat::gpu {

// --- Transaction barriers ------------------------------------------------------------------------
// A phase ends when `arrivals` threads have arrived and all bytes announced have come.
__device__ inline void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// On the barrier at the same address in block `block` of the cluster.
__device__ inline void ArriveAt(uint32_t barrier, uint32_t block) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(block)
      : "memory");
}
// Waits for the end of the phase of this parity. A wait that lasts some seconds is a bug of this
// program: the kernel stops and the host sees an error instead of a hang.
__device__ inline void WaitBarrier(uint32_t barrier, uint32_t parity) {
  constexpr uint32_t kTries{100000000};
  uint32_t done = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < kTries; ++i) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done != 0) return;
  }
  asm volatile("trap;");
}

// --- Clusters ------------------------------------------------------------------------------------
__device__ inline uint32_t BlockOfCluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// --- Bulk copies ---------------------------------------------------------------------------------
// `bytes` (a multiple of 16) to shared memory; they count on `barrier`.
__device__ inline void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
// The same to both blocks of the cluster, at the same addresses, each counting on its own barrier.
__device__ inline void CopyBulkToBoth(uint32_t to, const void* from, uint32_t bytes,
                                      uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}
// From shared memory; the issuing thread's next CommitStores closes the group.
__device__ inline void StoreBulk(void* to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
__device__ inline void CommitStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ inline void WaitForStoresToRead() {  // the shared memory may be written again
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void WaitForStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Ordinary accesses that stay in the order written: with most registers taken by sums, the compiler
// must not bring loads forward.
__device__ inline void StoreShared(uint32_t to, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
__device__ inline void StoreShared(uint32_t to, float x, float y, float z, float w) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}
__device__ inline float4 LoadShared(uint32_t from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from)
               : "memory");
  return v;
}
__device__ inline float2 LoadConstant(const float* from) {
  float2 pair;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "l"(from));
  return pair;
}
// Makes ordinary writes to shared memory visible to bulk copies and wgmma; by each writing thread,
// or by those that read, once a barrier has told them of the writes.
__device__ inline void PublishShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- Named barriers ------------------------------------------------------------------------------
__device__ inline void SyncThreads(uint32_t id, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void ArriveThreads(uint32_t id, uint32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- Registers between warpgroups ----------------------------------------------------------------
template <uint32_t kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <uint32_t kRegisters>
__device__ inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- wgmma ---------------------------------------------------------------------------------------
// A K-major operand in panels (plan.h) in shared memory, 1024-byte aligned: eight rows are 1024
// bytes, swizzled over 128 bytes. Sixteen columns further is 32 bytes further.
__device__ inline uint64_t Operand(uint32_t address) {
  constexpr uint64_t kEightRows{1024 >> 4}, kSwizzle128{1};
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 | kEightRows << 32 |
         kSwizzle128 << 62;
}
inline constexpr uint64_t kNextDepth{2 * kMmaDepth >> 4};  // in an operand's address field

__device__ inline void FenceWgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void CommitWgmma() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void WaitForWgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d += A . B^T over 16 columns: A 64 rows, B 128 or 192. Warp w of the warpgroup has rows 16w ..;
// lane 4g + q: d[4j + e] is row g + 8 (e / 2), column 8j + 2q + e % 2, as in an mma tile.
__device__ inline void Wgmma(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
      "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63"
      "}, %64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b));
}
__device__ inline void Wgmma(float (&d)[96], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
      "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
      "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
      "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
      "%92, %93, %94, %95"
      "}, %96, %97, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
        "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
        "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
        "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
        "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
      : "l"(a), "l"(b));
}

// --- Rows in accumulators ------------------------------------------------------------------------
// The sums of a thread over its two rows: sums[n][4j + e], columns 192n + 8j + ...
using RowSums = float[2][96];

// Sums of one of the two rows in the order of plan.h: lane sums over groups of kNormPairs tiles of
// eight columns, groups pairwise, then the quad.
template <typename Term>
__device__ inline float SumOfRow(Term term) {
  float group[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (uint32_t tile = 0; tile < kHidden / 8; ++tile) {
    group[tile / kNormPairs] = term(group[tile / kNormPairs], tile / 24, tile % 24);
  }
  float sum = __fadd_rn(__fadd_rn(group[0], group[1]), __fadd_rn(group[2], group[3]));
  sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
  return __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 2));
}

// Scale and shift of the thread's first or second row.
__device__ inline float2 StatisticsOf(const RowSums& sums, uint32_t row, float eps) {
  const float mean = __fmul_rn(SumOfRow([&](float sum, uint32_t n, uint32_t j) {
                                 return __fadd_rn(__fadd_rn(sum, sums[n][4 * j + 2 * row]),
                                                  sums[n][4 * j + 2 * row + 1]);
                               }),
                               1.0f / kHidden);
  const float squares = SumOfRow([&](float sum, uint32_t n, uint32_t j) {
    const float x = __fsub_rn(sums[n][4 * j + 2 * row], mean);
    const float y = __fsub_rn(sums[n][4 * j + 2 * row + 1], mean);
    return __fmaf_rn(y, y, __fmaf_rn(x, x, sum));
  });
  const float scale = NormScale(squares, eps);
  return make_float2(scale, __fmul_rn(-mean, scale));
}

// --- Shared memory -------------------------------------------------------------------------------
// The ring of weight tiles in shared memory: slot and phase of the n-th use.
template <uint32_t kSlots>
struct Ring {
  uint32_t slot = 0, phase = 0;

  // Before the n-th use.
  __device__ static Ring At(uint32_t n) { return {n % kSlots, n / kSlots % 2}; }
  __device__ void Next() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// Where a lane's pair of columns of an mma tile goes in a staging area of `rows` rows in panels,
// for tile row 16 * warp; the tile of columns 8j comes by XOR, because only the chunk's number
// changes.
__device__ inline uint32_t StagedPair(uint32_t staging, uint32_t warp, uint32_t lane) {
  return staging + 2 * static_cast<uint32_t>(PanelOffset(16 * warp + lane / 4, lane % 4 * 2, 0));
}
__device__ inline uint32_t StagedTile(uint32_t pair, uint32_t j, uint32_t rows) {
  return (pair ^ (j % 8 * 16)) + j / 8 * rows * kPanel * 2;
}
constexpr uint32_t kEightRows{8 * kPanel * 2};  // bytes

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_TILE_TOOLS_CUH_
