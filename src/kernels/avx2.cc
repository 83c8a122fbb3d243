// Compiled with -mavx2 -mfma -mf16c.
#include <immintrin.h>

#include "kernels/kernels.h"

namespace sprat {
namespace {

// The vector of 16 floats that the kernels below are written in: the same width, and so the same
// order of sums and the same bits, as in avx512.cc.
struct V {
  __m256 low;
  __m256 high;
};

// A tile is rows x vectors of sums: 6 x 1 pairs, a pair of weights and x fill 15 of 16 registers.
constexpr size_t kTileRows{6};
constexpr size_t kTileVectors{1};

V Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
V Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
V Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
void Store(float* p, V v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
V Add(V a, V b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
V Sub(V a, V b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
V Mul(V a, V b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
V Div(V a, V b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
V Fma(V a, V b, V c) {  // a * b + c
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
V Max(V a, V b) {  // b if either is NaN
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
V Min(V a, V b) {  // b if either is NaN
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
V Round(V a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
}

__m256 PowerOfTwo(__m256 a) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
// 2^a for integers a in [-126, 127].
V PowerOfTwo(V a) { return {PowerOfTwo(a.low), PowerOfTwo(a.high)}; }

// All ones in lane i where i < n.
__m256i First(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
__m256i LowMask(size_t n) { return First(static_cast<int>(n)); }
__m256i HighMask(size_t n) { return First(static_cast<int>(n) - 8); }

// The first n of 16 elements, 1 <= n <= 16; the others are neither read nor written.
V LoadFirst(const float* p, size_t n) {
  return {_mm256_maskload_ps(p, LowMask(n)), _mm256_maskload_ps(p + 8, HighMask(n))};
}
void StoreFirst(float* p, V v, size_t n) {
  _mm256_maskstore_ps(p, LowMask(n), v.low);
  _mm256_maskstore_ps(p + 8, HighMask(n), v.high);
}

// The first n elements of a, then those of b.
V Select(V a, V b, size_t n) {
  return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(LowMask(n))),
          _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(HighMask(n)))};
}

// The two halves of the 16 elements.
__m256 Low(V v) { return v.low; }
__m256 High(V v) { return v.high; }

void Transpose8(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (size_t i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (size_t i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) r[i] = t[i];
}

void Transpose(V (&r)[16]) {
  __m256 a[8], b[8], c[8], d[8];  // the quarters: (a b) over (c d)
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    a[i] = r[i].low;
    b[i] = r[i].high;
    c[i] = r[i + 8].low;
    d[i] = r[i + 8].high;
  }
  Transpose8(a);
  Transpose8(b);
  Transpose8(c);
  Transpose8(d);
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    r[i] = {a[i], c[i]};
    r[i + 8] = {b[i], d[i]};
  }
}

// How many vectors of a looked-up row are summed in registers at once.
constexpr size_t kGatherVectors{4};

// 16 elements of another type as f32, or the first n of them, 1 <= n <= 16; any alignment. AVX2 has
// no masks for elements this small, so a tail goes through a copy.
V LoadF16(const char* p) {
  const auto* halves = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
V LoadI8(const char* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
V LoadFirstF16(const char* p, size_t n) {
  char copy[32] = {};
  __builtin_memcpy(copy, p, n * 2);
  return LoadF16(copy);
}
V LoadFirstI8(const char* p, size_t n) {
  char copy[16] = {};
  __builtin_memcpy(copy, p, n);
  return LoadI8(copy);
}

// The order matters: each uses what the ones before it define.
#include "kernels/vector_reduce.inc"

#include "kernels/vector_linear.inc"

#include "kernels/vector_attention.inc"
#include "kernels/vector_gather.inc"
#include "kernels/vector_rows.inc"

}  // namespace

const Kernels kAvx2Kernels = {
    .name = "avx2",
    .panel_rows = kPanelRowsF32,
    .panel_bytes = PanelBytesF32,
    .pack_panel = PackPanelF32,
    .linear = Linear,
    .attention = Attention,
    .attention_scratch = AttentionScratch,
    .add_layer_norm = AddLayerNorm,
    .sum_rows = SumRows,
    .max_rows = MaxRows,
    .gather_rows = GatherRows,
    .l2_normalize = L2Normalize,
};

}  // namespace sprat
