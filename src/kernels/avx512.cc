// Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma.
#include <immintrin.h>

#include "kernels/kernels.h"

namespace sprat {
namespace {

// The vector of 16 floats that the kernels below are written in.
using V = __m512;

// A tile is rows x vectors of sums: 8 x 3 and a fourth row of operands fill the 32 registers.
constexpr size_t kTileRows{8};
constexpr size_t kTileVectors{3};

V Zero() { return _mm512_setzero_ps(); }
V Set(float x) { return _mm512_set1_ps(x); }
V Load(const float* p) { return _mm512_loadu_ps(p); }
void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
V Add(V a, V b) { return _mm512_add_ps(a, b); }
V Sub(V a, V b) { return _mm512_sub_ps(a, b); }
V Mul(V a, V b) { return _mm512_mul_ps(a, b); }
V Div(V a, V b) { return _mm512_div_ps(a, b); }
V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
V Max(V a, V b) { return _mm512_max_ps(a, b); }            // b if either is NaN
V Min(V a, V b) { return _mm512_min_ps(a, b); }            // b if either is NaN
V Round(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

// 2^a for integers a in [-126, 127].
V PowerOfTwo(V a) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

__mmask16 First(size_t n) { return static_cast<__mmask16>((1u << n) - 1); }

// The first n of 16 elements, 1 <= n <= 16; the others are neither read nor written.
V LoadFirst(const float* p, size_t n) { return _mm512_maskz_loadu_ps(First(n), p); }
void StoreFirst(float* p, V v, size_t n) { _mm512_mask_storeu_ps(p, First(n), v); }

// The first n elements of a, then those of b.
V Select(V a, V b, size_t n) { return _mm512_mask_blend_ps(First(n), b, a); }

// The two halves of the 16 elements.
__m256 Low(V v) { return _mm512_castps512_ps256(v); }
__m256 High(V v) { return _mm512_extractf32x8_ps(v, 1); }

void Transpose(V (&r)[16]) {
  V t[16];
#pragma GCC unroll 8
  for (size_t i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  // Lane l of r[4 b + i] is now column 4 l + i of rows 4 b to 4 b + 3: a transposition of lanes is
  // left.
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// How many vectors of a looked-up row are summed in registers at once.
constexpr size_t kGatherVectors{16};

// 16 elements of another type as f32, or the first n of them, 1 <= n <= 16; any alignment.
V LoadF16(const char* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
V LoadFirstF16(const char* p, size_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(First(n), p));
}
V LoadI8(const char* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
V LoadFirstI8(const char* p, size_t n) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(First(n), p)));
}

// The order matters: each uses what the ones before it define.
#include "kernels/vector_reduce.inc"

#include "kernels/vector_linear.inc"

#include "kernels/vector_attention.inc"
#include "kernels/vector_gather.inc"
#include "kernels/vector_rows.inc"

}  // namespace

const Kernels kAvx512Kernels = {
    .name = "avx512",
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
