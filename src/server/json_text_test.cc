#include "server/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

namespace sprat::server {
namespace {

TEST(AppendVector, WritesTheShortestNumbersThatReadBack) {
  std::string out;
  AppendVector(std::vector<float>{1.0f, -2.0f, 0.5f, 0.1f, 1e-7f, -0.0f}, out);
  EXPECT_EQ(out, "[1,-2,0.5,0.1,1e-07,-0]");
}

TEST(AppendVector, LongestNumbersFit) {
  // Up to 1e16 numbers are written without an exponent.
  for (const float longest : {-1.17549435e-38f, -1.2345679e15f, -9.9999998e15f, 3.4028235e38f}) {
    const std::vector<float> values(100, longest);
    std::string out;
    AppendVector(values, out);
    const char* at = out.c_str() + 1;
    for (const float value : values) {
      char* end = nullptr;
      EXPECT_EQ(std::strtof(at, &end), value);
      at = end + 1;
    }
    EXPECT_EQ(at, out.c_str() + out.size());
    EXPECT_LE(out.capacity(), values.size() * 24 + 2 + 16);
  }
}

TEST(AppendBase64, MatchesTheReportedExample) {
  std::string out;
  AppendBase64(std::vector<float>{1.0f, -2.0f, 0.5f}, out);
  EXPECT_EQ(out, "\"AACAPwAAAMAAAAA/\"");
}

TEST(AppendBase64, Pads) {
  std::string one;
  AppendBase64(std::vector<float>{1.0f}, one);  // 00 00 80 3f
  EXPECT_EQ(one, "\"AACAPw==\"");
  std::string two;
  AppendBase64(std::vector<float>{1.0f, -2.0f}, two);  // 00 00 80 3f 00 00 00 c0
  EXPECT_EQ(two, "\"AACAPwAAAMA=\"");
  std::string none;
  AppendBase64({}, none);
  EXPECT_EQ(none, "\"\"");
}

}  // namespace
}  // namespace sprat::server
