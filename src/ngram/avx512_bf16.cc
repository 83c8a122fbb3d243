// Compiled with -mavx512f -mavx512bw -mavx512vl -mavx512bf16 -mfma.
#include <immintrin.h>

#include "ngram/ngram_kernels.h"

namespace sprat {
namespace {

constexpr size_t kVectors{Projection::kPanel / 16};
constexpr size_t kPairWords{Projection::kPanel * 2};

// Weights are fetched this far ahead of their use; the first rows of a block find them in no cache.
constexpr size_t kPrefetchBytes{4096};

__m512bh Pairs(__m512i words) {
  __m512bh pairs;
  __builtin_memcpy(&pairs, &words, sizeof pairs);
  return pairs;
}

// kRows rows of x against the whole panel. Eight rows are 24 sums, which covers the latency of
// vdpbf16ps (6) at one a cycle with room to spare for the loads.
template <size_t kRows>
void ProjectRows(const Projection& p, size_t t) {
  __m512 sums[kRows][kVectors];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  const uint16_t* w = p.w;
  const uint16_t* x = p.x + t * p.depth;
  for (size_t k = 0; k < p.depth; k += 2, w += kPairWords) {
    __m512bh weights[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      _mm_prefetch(reinterpret_cast<const char*>(w + v * 32) + kPrefetchBytes, _MM_HINT_T0);
      weights[v] = Pairs(_mm512_loadu_si512(w + v * 32));
    }
    for (size_t r = 0; r < kRows; ++r) {
      int pair;
      __builtin_memcpy(&pair, x + r * p.depth + k, sizeof pair);
      const __m512bh both = Pairs(_mm512_set1_epi32(pair));
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], both, weights[v]);
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

}  // namespace

void ProjectAvx512Bf16(const Projection& p) {
  size_t t = 0;
  for (; t + 8 <= p.tokens; t += 8) ProjectRows<8>(p, t);
  switch (p.tokens - t) {
    case 7:
      return ProjectRows<7>(p, t);
    case 6:
      return ProjectRows<6>(p, t);
    case 5:
      return ProjectRows<5>(p, t);
    case 4:
      return ProjectRows<4>(p, t);
    case 3:
      return ProjectRows<3>(p, t);
    case 2:
      return ProjectRows<2>(p, t);
    case 1:
      return ProjectRows<1>(p, t);
  }
}

}  // namespace sprat
