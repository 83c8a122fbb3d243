// Conversions between f32 and the formats of tables, one number at a time. Right in flush-to-zero
// mode.
#ifndef SPRAT_NGRAM_NUMBER_FORMATS_H_
#define SPRAT_NGRAM_NUMBER_FORMATS_H_

#include <bit>
#include <cstdint>

#include "base/narrow_floats.h"

namespace sprat {

constexpr float kLargestE4m3{448.0f};

// OCP E4M3 (S.EEEE.MMM, bias 7, no infinities): round to nearest even, clamped to +-448; a NaN is
// 0x7f.
inline uint8_t FloatToE4m3(float value) {
  if (value != value) return 0x7f;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffff);
  if (magnitude >= kLargestE4m3) return sign | 0x7e;
  if (magnitude < 0x1p-6f) {
    // Subnormal: the f32 addition rounds to a multiple of 2^-9, which is the last bit of 2^14.
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(magnitude + 0x1p14f) & 0xf);
  }
  const uint32_t rounded = (bits & 0x7fffffff) + 0x7ffff + ((bits >> 20) & 1);
  const uint32_t code = (rounded >> 20) - (uint32_t{120} << 3);
  return sign | static_cast<uint8_t>(code > 0x7e ? 0x7e : code);
}

}  // namespace sprat

#endif  // SPRAT_NGRAM_NUMBER_FORMATS_H_
