#include "ngram/number_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sprat {
namespace {

TEST(FloatToE4m3, MatchesHandComputedValues) {
  EXPECT_EQ(FloatToE4m3(0.0f), 0x00);
  EXPECT_EQ(FloatToE4m3(-0.0f), 0x80);
  EXPECT_EQ(FloatToE4m3(1.0f), 0x38);
  EXPECT_EQ(FloatToE4m3(-1.125f), 0xb9);
  EXPECT_EQ(FloatToE4m3(448.0f), 0x7e);
  EXPECT_EQ(FloatToE4m3(0x1p-6f), 0x08);  // the smallest normal
  EXPECT_EQ(FloatToE4m3(0x1p-9f), 0x01);  // the smallest subnormal
  EXPECT_EQ(FloatToE4m3(0x7p-9f), 0x07);  // the largest subnormal
  EXPECT_EQ(FloatToE4m3(0x1p-40f), 0x00);
}

TEST(FloatToE4m3, RoundsToNearestEvenAndClamps) {
  EXPECT_EQ(FloatToE4m3(1.0625f), 0x38);  // halfway between 1 and 1.125: even
  EXPECT_EQ(FloatToE4m3(1.0626f), 0x39);
  EXPECT_EQ(FloatToE4m3(1.1875f), 0x3a);    // halfway between 1.125 and 1.25: even
  EXPECT_EQ(FloatToE4m3(0x1.8p-9f), 0x02);  // halfway between 1 and 2 times 2^-9
  EXPECT_EQ(FloatToE4m3(0x0.8p-9f), 0x00);
  EXPECT_EQ(FloatToE4m3(0x7.9p-9f), 0x08);  // up into the normal numbers
  EXPECT_EQ(FloatToE4m3(449.0f), 0x7e);
  EXPECT_EQ(FloatToE4m3(1e30f), 0x7e);
  EXPECT_EQ(FloatToE4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(FloatToE4m3(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

}  // namespace
}  // namespace sprat
