// IEEE 754 binary16 in plain C++, for packing weights and for the CPU twin.
#ifndef SPRAT_GPU_HALF_H_
#define SPRAT_GPU_HALF_H_

#include <bit>
#include <cstdint>

namespace sprat::gpu {

// The nearest f16, ties to even, as its bits; too large becomes infinity, NaN stays NaN.
constexpr uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 2^16
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
    if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below 2^-25
    const uint32_t shift = 126 - (magnitude >> 23);
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t half = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t middle = 1u << (shift - 1);
    return static_cast<uint16_t>(sign | (half + (rest > middle || (rest == middle && half % 2))));
  }
  const uint32_t rounded =
      magnitude + 0xfffu + (magnitude >> 13 & 1u);  // carries into the exponent
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Exact.
constexpr float FromHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
  }
  const uint32_t biased = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | biased << 23 | mantissa << 13);
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_HALF_H_
