// Classes of 64 bytes with SSE2, which every x86-64 has: no special flags, no dispatch.
#ifndef SPRAT_TOKENIZER_ASCII_BLOCK_SSE2_H_
#define SPRAT_TOKENIZER_ASCII_BLOCK_SSE2_H_

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "tokenizer/ascii_block_portable.h"

namespace sprat {

using portable::AsciiBlock;

// As portable::ClassifyAscii.
inline AsciiBlock ClassifyAscii(const char* p) {
  const auto in_range = [](__m128i x, char first, char last) {
    const __m128i offset = _mm_sub_epi8(x, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(offset, _mm_set1_epi8(static_cast<char>(last - first))),
                          offset);
  };
  AsciiBlock block{0, 0};
  for (size_t i = 0; i < 4; ++i) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    const __m128i letter = in_range(_mm_or_si128(x, _mm_set1_epi8(0x20)), 'a', 'z');
    const __m128i letter_or_digit = _mm_or_si128(letter, in_range(x, '0', '9'));
    const __m128i punctuation = _mm_andnot_si128(letter_or_digit, in_range(x, '!', '~'));
    const __m128i space = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\r'))),
        in_range(x, '\t', '\n'));
    block.space |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(space))} << 16 * i;
    block.punctuation |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(punctuation))} << 16 * i;
  }
  return block;
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_ASCII_BLOCK_SSE2_H_
