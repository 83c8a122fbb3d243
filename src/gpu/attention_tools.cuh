// What the kernels that attend share: the layout of a head's keys and values in shared memory, and
// the arithmetic of softmax, which is the same to the last bit in all of them.
#ifndef SPRAT_GPU_ATTENTION_TOOLS_CUH_
#define SPRAT_GPU_ATTENTION_TOOLS_CUH_

#include "gpu/kernel_tools.cuh"

namespace sprat::gpu {

constexpr float kScoreScale{0.17677669529663687f * 1.4426950408889634f};  // log2(e) / sqrt(32)
static_assert(kHead == 32, "the scale above, and two 16-deep mma steps a score");

// A key or value row of one head is 64 bytes, four chunks of 16. Two rows share 128 bytes; chunks
// are permuted so that eight rows of one chunk touch all banks.
__device__ inline uint32_t HeadOffset(uint32_t row, uint32_t chunk) {
  return 64 * row + 16 * (chunk ^ (row / 2 % 4));
}

// words[d] of lane q of a quad goes to words[q] of lane d.
__device__ inline void TransposeQuad(uint32_t (&words)[4]) {
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x % 4 >= 2;
#pragma unroll
  for (uint32_t d = 0; d < 4; d += 2) {  // 2x2 blocks inside
    const uint32_t other = __shfl_xor_sync(~0u, odd ? words[d] : words[d + 1], 1);
    (odd ? words[d] : words[d + 1]) = other;
  }
#pragma unroll
  for (uint32_t d = 0; d < 2; ++d) {  // the two blocks off the diagonal
    const uint32_t other = __shfl_xor_sync(~0u, upper ? words[d] : words[d + 2], 2);
    (upper ? words[d] : words[d + 2]) = other;
  }
}
static_assert(kHead / 8 == 4, "a row of a head is four chunks: one a lane of a quad");

// What a warp carries over the keys for its 16 queries. Lane 4g + q: rows g and g + 8.
struct Running {
  float sums[kHead / 8][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY};
  float total[2] = {0.0f, 0.0f};  // this lane's part
};

// Adds kKeyStep keys, of which `valid` count: all of them if kWhole. Whole tiles that do not count
// are left out, which changes no bit: their weights would be zero.
template <bool kWhole>
__device__ inline void AddKeys(const uint32_t (&query)[2][4], uint32_t keys, uint32_t values,
                               uint32_t valid, Running& r) {
  const uint32_t lane = threadIdx.x % 32;
  float scores[kKeyStep / 8][4] = {};
  float maximum[2] = {r.maximum[0], r.maximum[1]};
#pragma unroll
  for (uint32_t n = 0; n < kKeyStep / 8; ++n) {
    if (!kWhole && 8 * n >= valid) break;
    uint32_t b[4];
    LoadMatrices(b, keys + HeadOffset(8 * n + lane % 8, lane / 8));
    Mma(scores[n], query[0], b[0], b[1]);
    Mma(scores[n], query[1], b[2], b[3]);
  }
#pragma unroll
  for (uint32_t n = 0; n < kKeyStep / 8; ++n) {
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      if (!kWhole && 8 * n + lane % 4 * 2 + e % 2 >= valid) scores[n][e] = -INFINITY;
      maximum[e / 2] = fmaxf(maximum[e / 2], scores[n][e]);
    }
  }
  float shift[2];
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(~0u, maximum[half], 1));
    maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(~0u, maximum[half], 2));
    shift[half] = __fmul_rn(maximum[half], -kScoreScale);
    const float shrink = Exp2(__fmaf_rn(r.maximum[half], kScoreScale, shift[half]));
    r.maximum[half] = maximum[half];
    r.total[half] = __fmul_rn(r.total[half], shrink);
#pragma unroll
    for (uint32_t d = 0; d < kHead / 8; ++d) {
      r.sums[d][2 * half] = __fmul_rn(r.sums[d][2 * half], shrink);
      r.sums[d][2 * half + 1] = __fmul_rn(r.sums[d][2 * half + 1], shrink);
    }
  }
#pragma unroll
  for (uint32_t k = 0; k < kKeyStep / 16; ++k) {  // 16 keys
    if (!kWhole && 16 * k >= valid) break;
    uint32_t p[4];
#pragma unroll
    for (uint32_t part = 0; part < 4; ++part) {  // keys 0-7 rows g, g + 8; keys 8-15 the same
      const uint32_t half = part % 2, n = 2 * k + part / 2;
      const float x = Exp2(__fmaf_rn(scores[n][2 * half], kScoreScale, shift[half]));
      const float y = Exp2(__fmaf_rn(scores[n][2 * half + 1], kScoreScale, shift[half]));
      r.total[half] = __fadd_rn(r.total[half], __fadd_rn(x, y));
      p[part] = PackHalves(x, y);
    }
#pragma unroll
    for (uint32_t d = 0; d < kHead / 16; ++d) {
      uint32_t b[4];
      LoadMatricesTransposed(b, values + HeadOffset(16 * k + lane % 16, 2 * d + lane / 16));
      Mma(r.sums[2 * d], p, b[0], b[1]);
      Mma(r.sums[2 * d + 1], p, b[2], b[3]);
    }
  }
}

// Rows `row` and `row` + 8 of the context, if they are below `length`; `first` is the sequence's
// first token.
__device__ inline void StoreContext(const Running& running, uint16_t* context, uint32_t rows,
                                    uint32_t first, uint32_t row, uint32_t length,
                                    uint32_t column) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float total = running.total[half];
    total = __fadd_rn(total, __shfl_xor_sync(~0u, total, 1));
    total = __fadd_rn(total, __shfl_xor_sync(~0u, total, 2));
    const float scale = __fdiv_rn(1.0f, total);
    uint32_t words[kHead / 8];
#pragma unroll
    for (uint32_t d = 0; d < kHead / 8; ++d) {
      words[d] = PackHalves(__fmul_rn(running.sums[d][2 * half], scale),
                            __fmul_rn(running.sums[d][2 * half + 1], scale));
    }
    TransposeQuad(words);  // now lane q of the quad has the 16 bytes of columns 8q ..
    const uint32_t at = row + 8 * half;
    if (at >= length) continue;
    *reinterpret_cast<uint4*>(context + PanelOffset(first + at, column + 8 * (lane % 4), rows)) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_ATTENTION_TOOLS_CUH_
