// What options take for a number, a name, a text, and what they say of the rest.
#include "cli/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace sprat::cli {
namespace {

// What the option says of `text`; otherwise the text as it goes on.
std::string Given(const CLI::Validator& validator, std::string text) {
  const std::string fault = validator(text);
  return fault.empty() ? text : fault;
}

TEST(Values, WholeNumbersAreDigits) {
  EXPECT_EQ(Given(WholeNumber(1, 1024), "1"), "1");
  EXPECT_EQ(Given(WholeNumber(1, 1024), "1024"), "1024");
  EXPECT_EQ(Given(WholeNumber(0), "0"), "0");
  EXPECT_EQ(Given(WholeNumber(0), "010"), "10");
  EXPECT_EQ(Given(WholeNumber(0), "4294967295"), "4294967295");
  for (const char* text : {"0", "1025", "-3", "", " 5", "5 ", "+5", "0x20", "2.5", "1e2", "abc",
                           "99999999999999999999999", "18446744073709551617"}) {
    EXPECT_EQ(Given(WholeNumber(1, 1024), text),
              "must be a whole number from 1 to 1024, got '" + std::string(text) + "'");
  }
}

TEST(Values, RealNumbersAreFiniteDecimals) {
  for (const char* text : {"0", "1", "-1", "0.25", ".5", "1e-3", "-0"}) {
    EXPECT_EQ(Given(RealNumber(-1, 1), text), text);
  }
  for (const char* text : {"2", "-1.01", "nan", "-nan", "inf", "1e999", "0x1", "+1", "", "half"}) {
    EXPECT_EQ(Given(RealNumber(-1, 1), text),
              "must be a number from -1 to 1, got '" + std::string(text) + "'");
  }
  EXPECT_EQ(Given(RealNumber(0.001, 600), "0"), "must be a number from 0.001 to 600, got '0'");
}

TEST(Values, NamesAndTexts) {
  EXPECT_EQ(Given(OneOf({"a", "bc"}), "bc"), "bc");
  EXPECT_EQ(Given(OneOf({"a", "bc"}), "b"), "must be one of a, bc, got 'b'");
  EXPECT_EQ(Given(NotEmpty(), "a"), "a");
  EXPECT_EQ(Given(NotEmpty(), ""), "is empty");
  EXPECT_EQ(Given(Utf8(), "\xC3\xA9"), "\xC3\xA9");
  EXPECT_EQ(Given(Utf8(), "a\xFF"), "not UTF-8: byte 2 of 'a\xEF\xBF\xBD' is 0xff");
}

TEST(Values, StandardInputIsReadOnce) {
  EXPECT_NO_THROW(RefuseStandardInputTwice("FILES", {"-", "a", "a"}));
  EXPECT_THROW(RefuseStandardInputTwice("FILES", {"-", "a", "-"}), CLI::ValidationError);
}

}  // namespace
}  // namespace sprat::cli
