#include "base/narrow_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sprat {
namespace {

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBf16(0x1.01p0f), 0x3f80);  // halfway between 1 and 1 + 2^-7: even
  EXPECT_EQ(FloatToBf16(0x1.010002p0f), 0x3f81);
  EXPECT_EQ(FloatToBf16(0x1.03p0f), 0x3f82);  // halfway: even
  EXPECT_EQ(Bf16ToFloat(0xc040), -3.0f);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(HalfToFloat, MatchesTheStandardsValues) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x83ff), -0x3ffp-24f);
  EXPECT_EQ(HalfToFloat(0x0000), 0.0f);
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
  EXPECT_EQ(HalfToFloat(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e00)));
}

// Against the definition, every one: (-1)^s * m * 2^(e - 25), or m * 2^-24 for e = 0.
TEST(HalfToFloat, EveryFiniteNumberIsExact) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const int exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
    ASSERT_EQ(HalfToFloat(static_cast<uint16_t>(half)), (half >> 15 ? -magnitude : magnitude))
        << half;
  }
}

}  // namespace
}  // namespace sprat
