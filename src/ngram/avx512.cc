// Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c.
#include <immintrin.h>

#include "ngram/ngram_kernels.h"

namespace sprat {
namespace {

// sum mod modulus for sums below 2^52. The rounded quotient is the true one or one more, so the
// remainder that it leaves is in [-M, M) and one addition mends it.
__m512i Modulo(__m512i sum, __m512i modulus, __m512d inverse) {
  const __m512i quotient = _mm512_cvtpd_epu64(_mm512_mul_pd(_mm512_cvtepu64_pd(sum), inverse));
  const __m512i rest = _mm512_sub_epi64(sum, _mm512_mul_epu32(quotient, modulus));
  return _mm512_mask_add_epi64(rest, _mm512_movepi64_mask(rest), rest, modulus);
}

void Hash(const HashPlan& plan, const uint32_t* windows, size_t tokens, uint32_t* ids) {
  constexpr size_t kLanes{8};
  const size_t padded = (plan.tables + kLanes - 1) / kLanes * kLanes;
  // A vector of tables is kept in registers while all tokens pass.
  for (size_t i = 0; i < plan.tables; i += kLanes) {
    const __m512i modulus = _mm512_loadu_si512(plan.modulus + i);
    const __m512d inverse = _mm512_loadu_pd(plan.inverse + i);
    const size_t left = plan.tables - i;
    const auto mask = static_cast<__mmask8>(left >= kLanes ? 0xff : (1u << left) - 1);
    for (size_t t = 0; t < tokens; ++t) {
      const uint32_t* window = windows + t * plan.order;
      __m512i sum = _mm512_set1_epi64(window[0]);
      for (size_t s = 1; s < plan.order; ++s) {
        const __m512i power = _mm512_loadu_si512(plan.power + (s - 1) * padded + i);
        sum = _mm512_add_epi64(sum, _mm512_mul_epu32(_mm512_set1_epi64(window[s]), power));
      }
      const __m256i words = _mm512_cvtepi64_epi32(Modulo(sum, modulus, inverse));
      _mm256_mask_storeu_epi32(ids + t * plan.tables + i, mask, words);
    }
  }
}

// Sixteen E4M3 codes as f32, times scale * 2^8. The bits S.EEEE.MMM moved to half precision's
// S.0EEEE.MMM0000000 are the value times 2^-8, subnormals included.
__m512 Decode16(__m128i codes, __m512 scale_256) {
  const __m256i words = _mm256_cvtepu8_epi16(codes);
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(words, _mm256_set1_epi16(0x80)), 8);
  const __m256i magnitude = _mm256_and_si256(words, _mm256_set1_epi16(0x7f));
  const __m256i half = _mm256_or_si256(sign, _mm256_slli_epi16(magnitude, 7));
  const __mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f));
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7e00))),
                       scale_256);
}

// Sixteen f32 as bf16, to nearest even; a NaN stays one.
__m256i ToBf16(__m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512i kept = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}

void DecodeE4m3(const uint8_t* codes, float scale, size_t n, uint16_t* out) {
  const __m512 scale_256 = _mm512_set1_ps(scale * 256.0f);
  for (size_t i = 0; i < n; i += 16) {
    const auto mask = static_cast<__mmask16>(n - i >= 16 ? 0xffff : (1u << (n - i)) - 1);
    const __m128i sixteen = _mm_maskz_loadu_epi8(mask, codes + i);
    _mm256_mask_storeu_epi16(out + i, mask, ToBf16(Decode16(sixteen, scale_256)));
  }
}

// The two bf16 of each word as f32.
__m512 Low(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
__m512 High(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
}

constexpr size_t kVectors{Projection::kPanel / 16};

// kRows rows of x against the whole panel; 4 rows keep 12 sums, their operands and the widened
// weights in 32 registers.
template <size_t kRows>
void ProjectRows(const Projection& p, size_t t) {
  __m512 sums[kRows][kVectors];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  const uint16_t* w = p.w;
  for (size_t k = 0; k < p.depth; k += 2, w += Projection::kPanel * 2) {
    __m512 low[kVectors], high[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      const __m512i pairs = _mm512_loadu_si512(w + v * 32);
      low[v] = Low(pairs);
      high[v] = High(pairs);
    }
    for (size_t r = 0; r < kRows; ++r) {
      int pair;
      __builtin_memcpy(&pair, p.x + (t + r) * p.depth + k, sizeof pair);
      const __m512i both = _mm512_set1_epi32(pair);
      const __m512 x_low = Low(both), x_high = High(both);
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_fmadd_ps(x_low, low[v], sums[r][v]);
        sums[r][v] = _mm512_fmadd_ps(x_high, high[v], sums[r][v]);
      }
    }
  }
  const __m512 word_scale = _mm512_set1_ps(p.word_scale), sum_scale = _mm512_set1_ps(p.sum_scale);
  for (size_t r = 0; r < kRows; ++r) {
    float* y = p.y + (t + r) * p.y_stride;
    for (size_t v = 0; v < kVectors && v * 16 < p.columns; ++v) {
      const size_t left = p.columns - v * 16;
      const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1u << left) - 1);
      const __m512 word = _mm512_mul_ps(word_scale, _mm512_maskz_loadu_ps(mask, y + v * 16));
      _mm512_mask_storeu_ps(y + v * 16, mask, _mm512_fmadd_ps(sum_scale, sums[r][v], word));
    }
  }
}

void Project(const Projection& p) {
  size_t t = 0;
  for (; t + 4 <= p.tokens; t += 4) ProjectRows<4>(p, t);
  switch (p.tokens - t) {
    case 3:
      return ProjectRows<3>(p, t);
    case 2:
      return ProjectRows<2>(p, t);
    case 1:
      return ProjectRows<1>(p, t);
  }
}

}  // namespace

const NgramKernels kNgramAvx512{
    .name = "avx512", .hash = Hash, .decode_e4m3 = DecodeE4m3, .project = Project};

}  // namespace sprat
