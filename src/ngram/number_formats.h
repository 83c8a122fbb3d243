// Conversions between f32 and narrower formats, one number at a time. Right in flush-to-zero mode.
#ifndef SPRAT_NGRAM_NUMBER_FORMATS_H_
#define SPRAT_NGRAM_NUMBER_FORMATS_H_

#include <bit>
#include <cstdint>

namespace sprat {

constexpr float kLargestE4m3{448.0f};

inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// IEEE half precision, exactly.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, mantissa = uint32_t{half & 0x3ffu} << 13;
  const uint32_t exponent = (half >> 10) & 31;
  if (exponent == 0) {  // m * 2^-24 = (1 + m * 2^-10) * 2^-14 - 2^-14
    const float value = std::bit_cast<float>((uint32_t{113} << 23) | mantissa) - 0x1p-14f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | mantissa);
}

// Round to nearest even; a NaN stays one.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

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
