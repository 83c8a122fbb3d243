// Compiled with -mavx2 -mfma -mf16c.
#include <immintrin.h>

#include "ngram/ngram_kernels.h"

namespace sprat {
namespace {

// Sums and quotients pass between integers and doubles by the bits of 2^52 + n (Hacker's Delight,
// 2nd ed., section 17-5), exact for 0 <= n < 2^52.
__m256d ToDouble(__m256i n) {
  const __m256d magic = _mm256_set1_pd(0x1p52);
  return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(n, _mm256_castpd_si256(magic))), magic);
}

// sum mod modulus. The rounded quotient is the true one or one more, so the remainder that it
// leaves is in [-M, M) and one addition mends it.
__m256i Modulo(__m256i sum, __m256i modulus, __m256d inverse) {
  const __m256d magic = _mm256_set1_pd(0x1p52);
  const __m256d quotient = _mm256_add_pd(_mm256_mul_pd(ToDouble(sum), inverse), magic);
  const __m256i product = _mm256_mul_epu32(_mm256_castpd_si256(quotient), modulus);
  const __m256i rest = _mm256_sub_epi64(sum, product);
  const __m256i negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), rest);
  return _mm256_add_epi64(rest, _mm256_and_si256(negative, modulus));
}

void Hash(const HashPlan& plan, const uint32_t* windows, size_t tokens, uint32_t* ids) {
  constexpr size_t kLanes{4};
  const size_t padded = (plan.tables + HashPlan::kTableMultiple - 1) / HashPlan::kTableMultiple *
                        HashPlan::kTableMultiple;
  const __m256i even_words = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  for (size_t t = 0; t < tokens; ++t) {
    const uint32_t* window = windows + t * plan.order;
    uint32_t* out = ids + t * plan.tables;
    for (size_t i = 0; i < plan.tables; i += kLanes) {
      __m256i sum = _mm256_set1_epi64x(window[0]);
      for (size_t s = 1; s < plan.order; ++s) {
        const auto* power = reinterpret_cast<const __m256i*>(plan.power + (s - 1) * padded + i);
        sum = _mm256_add_epi64(
            sum, _mm256_mul_epu32(_mm256_set1_epi64x(window[s]), _mm256_loadu_si256(power)));
      }
      const auto* modulus = reinterpret_cast<const __m256i*>(plan.modulus + i);
      const __m256i id =
          Modulo(sum, _mm256_loadu_si256(modulus), _mm256_loadu_pd(plan.inverse + i));
      const __m128i words = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(id, even_words));
      const auto left = static_cast<int>(plan.tables - i);
      const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(left), _mm_setr_epi32(0, 1, 2, 3));
      _mm_maskstore_epi32(reinterpret_cast<int*>(out + i), mask, words);
    }
  }
}

// Eight E4M3 codes as f32, times scale * 2^8. The bits S.EEEE.MMM moved to half precision's
// S.0EEEE.MMM0000000 are the value times 2^-8, subnormals included.
__m256 Decode8(__m128i codes, __m256 scale_256) {
  const __m128i words = _mm_cvtepu8_epi16(codes);
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(words, _mm_set1_epi16(0x80)), 8);
  const __m128i magnitude = _mm_and_si128(words, _mm_set1_epi16(0x7f));
  const __m128i half = _mm_or_si128(sign, _mm_slli_epi16(magnitude, 7));
  const __m128i nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
  // 0x7c00 is all ones in half precision's exponent, and the mantissa is not zero: NaN.
  const __m128i with_nan = _mm_or_si128(half, _mm_and_si128(nan, _mm_set1_epi16(0x7c00)));
  return _mm256_mul_ps(_mm256_cvtph_ps(with_nan), scale_256);
}

// Eight f32 as bf16, to nearest even; a NaN stays one.
__m128i ToBf16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)),
                               _mm256_castps_si256(nan));
  const __m256i high = _mm256_srli_epi32(rounded, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

void DecodeE4m3(const uint8_t* codes, float scale, size_t n, uint16_t* out) {
  const __m256 scale_256 = _mm256_set1_ps(scale * 256.0f);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), ToBf16(Decode8(eight, scale_256)));
  }
  if (i == n) return;
  alignas(16) uint8_t last_codes[16] = {};
  alignas(16) uint16_t last_out[8];
  for (size_t j = i; j < n; ++j) last_codes[j - i] = codes[j];
  const __m128i eight = _mm_load_si128(reinterpret_cast<const __m128i*>(last_codes));
  _mm_store_si128(reinterpret_cast<__m128i*>(last_out), ToBf16(Decode8(eight, scale_256)));
  for (size_t j = i; j < n; ++j) out[j] = last_out[j - i];
}

// The two bf16 of each word as f32.
__m256 Low(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
__m256 High(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-65536)));
}

constexpr size_t kVectors{Projection::kPanel / 8};

// Two rows of x against the whole panel: 12 sums, which is what 16 registers hold.
template <size_t kRows>
void ProjectRows(const Projection& p, size_t t) {
  __m256 sums[kRows][kVectors];
  for (auto& row : sums) {
    for (__m256& sum : row) sum = _mm256_setzero_ps();
  }
  const uint16_t* w = p.w;
  for (size_t k = 0; k < p.depth; k += 2, w += Projection::kPanel * 2) {
    __m256 low[kRows], high[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      int pair;
      __builtin_memcpy(&pair, p.x + (t + r) * p.depth + k, sizeof pair);
      low[r] = Low(_mm256_set1_epi32(pair));
      high[r] = High(_mm256_set1_epi32(pair));
    }
    for (size_t v = 0; v < kVectors; ++v) {
      const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + v * 16));
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][v] = _mm256_fmadd_ps(low[r], Low(pairs), sums[r][v]);
        sums[r][v] = _mm256_fmadd_ps(high[r], High(pairs), sums[r][v]);
      }
    }
  }
  const __m256 word_scale = _mm256_set1_ps(p.word_scale), sum_scale = _mm256_set1_ps(p.sum_scale);
  for (size_t r = 0; r < kRows; ++r) {
    float* y = p.y + (t + r) * p.y_stride;
    for (size_t v = 0; v < kVectors && v * 8 < p.columns; ++v) {
      const __m256i mask =
          _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(p.columns - v * 8)),
                             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      const __m256 word = _mm256_mul_ps(word_scale, _mm256_maskload_ps(y + v * 8, mask));
      _mm256_maskstore_ps(y + v * 8, mask, _mm256_fmadd_ps(sum_scale, sums[r][v], word));
    }
  }
}

void Project(const Projection& p) {
  size_t t = 0;
  for (; t + 2 <= p.tokens; t += 2) ProjectRows<2>(p, t);
  if (t < p.tokens) ProjectRows<1>(p, t);
}

}  // namespace

const NgramKernels kNgramAvx2{
    .name = "avx2", .hash = Hash, .decode_e4m3 = DecodeE4m3, .project = Project};

}  // namespace sprat
