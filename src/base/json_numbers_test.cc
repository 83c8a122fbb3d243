#include "base/json_numbers.h"

#include <gtest/gtest.h>

namespace sprat {
namespace {

TEST(WithLargeNumbersAsReals, ChangesWholeNumbersBeyond64Bits) {
  EXPECT_EQ(WithLargeNumbersAsReals(R"({"a": 1000000000000000019884624838656, "b": [-7]})"),
            R"({"a": 1000000000000000019884624838656.0, "b": [-7]})");
  EXPECT_EQ(WithLargeNumbersAsReals("[18446744073709551616,-9223372036854775809]"),
            "[18446744073709551616.0,-9223372036854775809.0]");
  EXPECT_EQ(WithLargeNumbersAsReals("[18446744073709551615,-9223372036854775808]"), std::nullopt);
}

TEST(WithLargeNumbersAsReals, Takes1e308ForNumbersBeyondDoubles) {
  EXPECT_EQ(WithLargeNumbersAsReals(R"({"a":1e999,"b":[-1.5E+400, 2]})"),
            R"({"a":1e308,"b":[-1e308, 2]})");
  EXPECT_EQ(WithLargeNumbersAsReals("1" + std::string(400, '0')), "1e308");
  EXPECT_EQ(WithLargeNumbersAsReals("0.0001e400"), "1e308");
  EXPECT_EQ(WithLargeNumbersAsReals("1" + std::string(400, '0') + "e-5"), "1e308");
  EXPECT_EQ(WithLargeNumbersAsReals("1e99999999999999999999"), "1e308");
  EXPECT_EQ(WithLargeNumbersAsReals("1e9223372036854775807"), "1e308");
}

TEST(WithLargeNumbersAsReals, LeavesOtherNumbersAlone) {
  for (const char* json :
       {"1234567890123456789", "1.7976931348623157e308", "1e-999", "0.1e-99999999999999999999",
        "0.00000001e-9223372036854775807", "0e999", "-0.0", "[1.00000000000000000000]",
        "[100000000000000000000e-2, 1e+30]"}) {
    EXPECT_EQ(WithLargeNumbersAsReals(json), std::nullopt) << json;
  }
  EXPECT_EQ(WithLargeNumbersAsReals("0." + std::string(400, '0') + "1"), std::nullopt);
  EXPECT_EQ(WithLargeNumbersAsReals("0." + std::string(400, '0') + "1e5"), std::nullopt);
}

TEST(WithLargeNumbersAsReals, LeavesWhatIsNotJsonNotJson) {
  for (const char* json : {"01e999", "1.e999", "1e999e", "1e999.5", "1e999+", "1.5.5e999"}) {
    EXPECT_EQ(WithLargeNumbersAsReals(json), std::nullopt) << json;
  }
  EXPECT_EQ(WithLargeNumbersAsReals("[1e999"), "[1e308");
}

TEST(WithLargeNumbersAsReals, LeavesStringsAlone) {
  for (const char* json :
       {R"({"12345678901234567890123": "\"1e999\\"})", "\"12345678901234567890\\", ""}) {
    EXPECT_EQ(WithLargeNumbersAsReals(json), std::nullopt) << json;
  }
}

}  // namespace
}  // namespace sprat
