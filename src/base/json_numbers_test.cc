#include "base/json_numbers.h"

#include <gtest/gtest.h>

namespace sprat {
namespace {

TEST(WithLargeNumbersAsReals, ChangesWholeNumbersOf20DigitsAndMore) {
  EXPECT_EQ(WithLargeNumbersAsReals(R"({"a": 1000000000000000019884624838656, "b": [-7]})"),
            R"({"a": 1000000000000000019884624838656.0, "b": [-7]})");
  EXPECT_EQ(WithLargeNumbersAsReals("[12345678901234567890,-12345678901234567890]"),
            "[12345678901234567890.0,-12345678901234567890.0]");
  EXPECT_EQ(WithLargeNumbersAsReals("1234567890123456789"), "1234567890123456789");
}

TEST(WithLargeNumbersAsReals, LeavesStringsAndRealsAlone) {
  for (const char* json :
       {R"({"12345678901234567890123": "\"12345678901234567890123\\"})", "[1.00000000000000000000]",
        "[100000000000000000000e-2, 1e+30]", "\"12345678901234567890\\", ""}) {
    EXPECT_EQ(WithLargeNumbersAsReals(json), json);
  }
}

}  // namespace
}  // namespace sprat
