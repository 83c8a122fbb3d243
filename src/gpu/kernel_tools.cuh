// What every kernel of this module uses: PTX instructions under names, and the arithmetic that two
// kernels must do alike to the last bit.
#ifndef SPRAT_GPU_KERNEL_TOOLS_CUH_
#define SPRAT_GPU_KERNEL_TOOLS_CUH_

#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/plan.h"

namespace sprat::gpu {

// --- Launches that overlap (programmatic dependent launch) ---------------------------------------
// The next kernel of the stream may start: its blocks
// fetch what no kernel writes (weights) and then wait. Every block of every kernel waits for the
// whole previous kernel, also if it has nothing to do: so "the previous kernel is done" implies
// that all before it are.
// A kernel that lets the next start only after its own wait tells it more: that all but
// itself are done.
__device__ inline void LetNextStart(bool now = true) {
#if __CUDA_ARCH__ >= 900
  if (now) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void WaitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// --- Shared memory -------------------------------------------------------------------------------
__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// 16 bytes from global to shared memory, past L1; not `wanted`: 16 zero bytes, nothing is read.
__device__ inline void CopyAsync(uint32_t to, const void* from, bool wanted = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(wanted ? 16 : 0)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 matrices of f16: lane l names a row of matrix l / 8; matrix i goes to r[i], two elements
// of row lane / 4 a lane (PTX ISA, ldmatrix).
__device__ inline void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// d += A . B, A 16x16 f16 by rows, B 16x8 f16 by columns, f32 sums. Lane 4g + q has rows g (d[0],
// d[1]) and g + 8 (d[2], d[3]), columns 2q and 2q + 1.
__device__ inline void Mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// --- Arithmetic ----------------------------------------------------------------------------------
__device__ inline uint32_t PackHalves(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline float2 UnpackHalves(uint32_t packed) {
  return __half22float2(*reinterpret_cast<const __half2*>(&packed));
}
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// x * Phi(x), the erf form, as max(x, 0) - |x| * 2^q(|x|), where 2^q is the upper tail of the
// normal distribution, Phi(-|x|): q is a polynomial fitted to log2 of it, weighted by its effect on
// the result. |error| <= 1e-6 for every x, far below the f16 that the result becomes.
__device__ inline float Gelu(float x) {
  const float a = fabsf(x);
  float q = __fmaf_rn(-0.0004881021159f, a, 0.007198718376f);
  q = __fmaf_rn(q, a, -0.05214663222f);
  q = __fmaf_rn(q, a, -0.4595958591f);
  q = __fmaf_rn(q, a, -1.1510005f);
  q = __fmaf_rn(q, a, -1.0f);
  return __fmaf_rn(-a, Exp2(q), fmaxf(x, 0.0f));
}

// LayerNorm of one value, given its row's scale, 1 / sqrt(variance + eps), and shift, -mean *
// scale. (Subtracting the mean first would let the compiler keep every difference from the variance
// on, for which the tile path has no registers.)
__device__ inline float Normalised(float value, float2 scale_shift, float gamma, float beta) {
  return __fmaf_rn(__fmaf_rn(value, scale_shift.x, scale_shift.y), gamma, beta);
}
__device__ inline float NormScale(float sum_of_squares, float eps) {
  return __fdiv_rn(1.0f, __fsqrt_rn(__fmaf_rn(sum_of_squares, 1.0f / kHidden, eps)));
}

// Adds the lane sums of LayerNorm in the order of plan.h; every lane gets the row's sum.
__device__ inline float SumOverLanes(float sum) {
  sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 4));
  sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 8));
  sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
  return __fadd_rn(sum, __shfl_xor_sync(~0u, sum, 2));
}

// Scale and shift of a row, from the pairs of columns that each of kNormLanes lanes owns. Every
// lane of a warp calls it: a warp has two rows.
__device__ inline float2 NormStatistics(const float2 (&v)[kNormPairs], float eps) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) sum = __fadd_rn(__fadd_rn(sum, v[j].x), v[j].y);
  const float mean = __fmul_rn(SumOverLanes(sum), 1.0f / kHidden);
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    const float a = __fsub_rn(v[j].x, mean), b = __fsub_rn(v[j].y, mean);
    squares = __fmaf_rn(b, b, __fmaf_rn(a, a, squares));
  }
  const float scale = NormScale(SumOverLanes(squares), eps);
  return make_float2(scale, __fmul_rn(-mean, scale));
}

// The pairs that lane `lane` owns of a row of f32. Activations come past L1, because another kernel
// may have written them since this multiprocessor last read them; parameters do not change.
__device__ inline void LoadNormLane(float2 (&v)[kNormPairs], const float* row, uint32_t lane) {
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    v[j] = __ldcg(reinterpret_cast<const float2*>(row + NormColumn(lane, j)));
  }
}
struct NormParameters {
  float2 gamma[kNormPairs];
  float2 beta[kNormPairs];
};
__device__ inline void LoadNormLane(NormParameters& p, const float* norm, uint32_t lane) {
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    p.gamma[j] = __ldg(reinterpret_cast<const float2*>(norm + NormColumn(lane, j)));
    p.beta[j] = __ldg(reinterpret_cast<const float2*>(norm + kHidden + NormColumn(lane, j)));
  }
}

// Replaces the pairs of columns that a lane owns by their LayerNorm.
__device__ inline void NormaliseLane(float2 (&v)[kNormPairs], const NormParameters& p, float eps) {
  const float2 scale_shift = NormStatistics(v, eps);
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    v[j].x = Normalised(v[j].x, scale_shift, p.gamma[j].x, p.beta[j].x);
    v[j].y = Normalised(v[j].y, scale_shift, p.gamma[j].y, p.beta[j].y);
  }
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_KERNEL_TOOLS_CUH_
