// Conversions between f32 and the 16-bit formats, one number at a time.
#ifndef SPRAT_BASE_NARROW_FLOATS_H_
#define SPRAT_BASE_NARROW_FLOATS_H_

#include <bit>
#include <cstdint>

namespace sprat {

// The value of an IEEE 754 binary16 number, exactly, subnormals, infinities and NaN included, also
// in flush-to-zero mode and without a branch. From an exponent e of 5 bits, shifting the bits into
// f32's place and adding 224 to the exponent gives 2^112 times the value, with infinity and NaN in
// their place; a subnormal m * 2^-24 comes from the bits of 0.5 + m * 2^-24, minus 0.5.
inline float HalfToFloat(uint16_t half) {
  const uint32_t twice = uint32_t{half} << 17;  // the sign shifted out
  const float normal = std::bit_cast<float>((twice >> 4) + (uint32_t{224} << 23)) * 0x1.0p-112f;
  const float subnormal = std::bit_cast<float>((twice >> 17) | (uint32_t{126} << 23)) - 0.5f;
  const uint32_t magnitude =
      std::bit_cast<uint32_t>(twice < (uint32_t{1} << 27) ? subnormal : normal);
  return std::bit_cast<float>(uint32_t{half & 0x8000u} << 16 | magnitude);
}

// bfloat16: the upper half of an f32.
inline float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Round to nearest even; a NaN stays one.
inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace sprat

#endif  // SPRAT_BASE_NARROW_FLOATS_H_
