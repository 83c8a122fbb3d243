// What the kernels of the n-gram embedding share: E4M3, bf16 matrix products, and the
// epilogue that they must do alike to the last bit.
#ifndef SPRAT_GPU_NGRAM_TOOLS_CUH_
#define SPRAT_GPU_NGRAM_TOOLS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/ngram_kernels.h"
#include "gpu/ngram_wgmma.cuh"
#include "gpu/tile_tools.cuh"

namespace sprat::gpu {

inline constexpr uint32_t kWarpgroup{128};

__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// SyncCluster (tile_tools.cuh) in two, which publishes nothing that was written before, and so
// waits for no load: the other blocks may be written to once all have arrived.
__device__ inline void ArriveCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void WaitCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// This thread arrives on the barrier once its CopyAsync have come.
__device__ inline void ArriveAfterCopies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
// Four bytes from global to shared memory.
__device__ inline void CopyAsync4(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline uint4 LoadShared128(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}
// The same address in the shared memory of block `block` of the cluster.
__device__ inline uint32_t InBlock(uint32_t address, uint32_t block) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  return there;
}
// 16 bytes to another block; they count on the barrier there.
__device__ inline void StoreInBlock(uint32_t to, float4 v, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
      : "memory");
}
// On a barrier of another block, or of this one, whose address InBlock has found.
__device__ inline void ArriveThere(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void StoreShared(uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

// --- Numbers -------------------------------------------------------------------------------------
__device__ inline uint32_t PackBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline float2 UnpackBf16(uint32_t packed) {
  return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
}

// Four E4M3 codes times the scale, rounded to bf16 as on the CPU.
__device__ inline uint2 DecodeE4m3(uint32_t codes, float scale) {
  uint32_t low, high;
  asm("{\n"
      ".reg .b16 l, h;\n"
      "mov.b32 {l, h}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, l;\n"
      "cvt.rn.f16x2.e4m3x2 %1, h;\n"
      "}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
  const float2 a = UnpackHalves(low), b = UnpackHalves(high);
  return make_uint2(PackBf16(__fmul_rn(a.x, scale), __fmul_rn(a.y, scale)),
                    PackBf16(__fmul_rn(b.x, scale), __fmul_rn(b.y, scale)));
}
__device__ inline uint4 DecodeE4m3(uint2 codes, float scale) {
  const uint2 low = DecodeE4m3(codes.x, scale), high = DecodeE4m3(codes.y, scale);
  return make_uint4(low.x, low.y, high.x, high.y);
}

// a E + b sum, for two neighbouring columns.
__device__ inline uint32_t WithWordRow(const NgramPlan& plan, uint32_t word, float x, float y) {
  const float2 e = UnpackBf16(word);
  return PackBf16(__fmaf_rn(plan.sum_scale, x, __fmul_rn(plan.word_scale, e.x)),
                  __fmaf_rn(plan.sum_scale, y, __fmul_rn(plan.word_scale, e.y)));
}

// --- Matrix products -----------------------------------------------------------------------------
// As Mma (kernel_tools.cuh), of bf16.
__device__ inline void MmaBf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_TOOLS_CUH_
