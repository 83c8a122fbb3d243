// JSON, .npy, UTF-8: the bytes that are written and those that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cli/json_writer.h"
#include "cli/npy.h"
#include "cli/timing.h"
#include "cli/utf8.h"

namespace sprat::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

template <typename T>
std::string Number(T value) {
  std::string out;
  AppendNumber(value, out);
  return out;
}

TEST(Json, EscapesWhatRfc8259Requires) {
  EXPECT_EQ(Quoted("a\"b\\c/\n\r\t"), R"("a\"b\\c/\n\r\t")");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
  EXPECT_EQ(Quoted("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
  EXPECT_EQ(Quoted("a\xFF"
                   "b\xC3"),
            "\"a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\"");
}

TEST(Json, NumbersAreTheShortestThatReadBack) {
  EXPECT_EQ(Number(0.1f), "0.1");
  EXPECT_EQ(Number(1.0f / 3), "0.33333334");
  EXPECT_EQ(Number(-2.5e-8f), "-2.5e-08");
  EXPECT_EQ(Number(size_t{42}), "42");
  EXPECT_EQ(Number(std::numeric_limits<float>::quiet_NaN()), "null");
  EXPECT_EQ(Number(-std::numeric_limits<double>::infinity()), "null");
}

TEST(Json, ObjectsAreOneLine) {
  EXPECT_EQ(JsonObject().Add("a", "x\n").Add("b", true).Add("c", 1.5).AddRaw("d", "[1]").Line(),
            "{\"a\":\"x\\n\",\"b\":true,\"c\":1.5,\"d\":[1]}\n");
  EXPECT_EQ(JsonObject().Line(), "{}\n");
}

TEST(Utf8, EndsAtTheFirstByteThatIsNot) {
  EXPECT_EQ(ValidUtf8Prefix("0123456789\xC3\xA9"), 12u);
  EXPECT_EQ(ValidUtf8Prefix("01234567\x80"), 8u);              // a tail without a lead
  EXPECT_EQ(ValidUtf8Prefix("a\xC0\xAF"), 1u);                 // overlong
  EXPECT_EQ(ValidUtf8Prefix("a\xE0\x9F\xBF"), 1u);             // overlong
  EXPECT_EQ(ValidUtf8Prefix("a\xED\xA0\x80"), 1u);             // U+D800
  EXPECT_EQ(ValidUtf8Prefix("a\xF0\x8F\xBF\xBF"), 1u);         // overlong
  EXPECT_EQ(ValidUtf8Prefix("a\xF4\x90\x80\x80"), 1u);         // U+110000
  EXPECT_EQ(ValidUtf8Prefix("\xF4\x8F\xBF\xBF"), 4u);          // U+10FFFF
  EXPECT_EQ(ValidUtf8Prefix("\xED\x9F\xBF\xEE\x80\x80"), 6u);  // U+D7FF, U+E000
  EXPECT_EQ(ValidUtf8Prefix(std::string_view("\0", 1)), 1u);
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(CutUtf8("a\xC3\xA9z", 2), 1u);
  EXPECT_EQ(CutUtf8("a\xC3\xA9z", 3), 3u);
  EXPECT_EQ(CutUtf8("abc", 9), 3u);
  EXPECT_EQ(Shorten("h\xC3\xA9llo", 3), "h\xC3\xA9\xE2\x80\xA6");
  EXPECT_EQ(Shorten("h\xC3\xA9llo", 5), "h\xC3\xA9llo");
  EXPECT_EQ(Shorten("", 1), "");
}

TEST(Utf8, PrintableTextCannotDriveTheTerminal) {
  EXPECT_EQ(Printable("  a\n\t b\x1b[31mred\x7f "), "a b [31mred");
  EXPECT_EQ(Printable("a\xC2\x9B"
                      "31m"),
            "a 31m");  // the one-character CSI
  EXPECT_EQ(Printable("x\xFF"), "x\xEF\xBF\xBD");
}

TEST(Timing, PercentilesByNearestRank) {
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(Percentile(hundred, 50), 50);
  EXPECT_EQ(Percentile(hundred, 99), 99);
  EXPECT_EQ(Percentile({7}, 99), 7);
  const Spread spread = Summarize({3, 1, 2, 10});
  EXPECT_EQ(spread.min_us, 1);
  EXPECT_EQ(spread.p50_us, 2);
  EXPECT_EQ(spread.p99_us, 10);
  EXPECT_EQ(spread.mean_us, 4);
}

// A version 1.0 file.
std::string Npy(std::string_view literal, std::string_view elements) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(literal.size());
  file += '\0';
  return file.append(literal).append(elements);
}

std::string Bytes(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

std::string Fault(std::string_view file) {
  Result<Matrix> matrix = ParseNpy(file, "v.npy");
  return matrix.ok() ? "" : matrix.error().message();
}

TEST(Npy, HeaderIsWhatNumpyWrites) {
  const std::string header = NpyHeader(3, 384);
  ASSERT_EQ(header.size(), 128u);
  EXPECT_EQ(header.substr(0, 10), std::string_view("\x93NUMPY\x01\x00\x76\x00", 10));  // 118
  EXPECT_THAT(header, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 384), }  "));
  EXPECT_EQ(header.back(), '\n');
}

TEST(Npy, ReadsWhatItWrites) {
  const std::vector<float> values = {1, -2, 0.5f, 4, 5, 6};
  Result<Matrix> matrix = ParseNpy(NpyHeader(2, 3) + Bytes(values), "v.npy");
  ASSERT_TRUE(matrix.ok()) << matrix.error().message();
  EXPECT_EQ(matrix.value().values, values);
  EXPECT_THAT(matrix.value().Row(1), ElementsAre(4, 5, 6));
}

TEST(Npy, ConvertsHalfAndDouble) {
  const std::vector<uint16_t> halves = {0x3C00, 0xC000, 0x0001, 0x7BFF};
  Result<Matrix> half = ParseNpy(
      Npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2)}\n", Bytes(halves)), "v");
  ASSERT_TRUE(half.ok()) << half.error().message();
  EXPECT_THAT(half.value().values, ElementsAre(1.0f, -2.0f, std::ldexp(1.0f, -24), 65504.0f));
  const std::vector<double> doubles = {0.5, 0.1};
  Result<Matrix> wide = ParseNpy(
      Npy("{\"descr\": \"<f8\", \"fortran_order\": False, \"shape\": (1, 2)}", Bytes(doubles)),
      "v");
  ASSERT_TRUE(wide.ok()) << wide.error().message();
  EXPECT_THAT(wide.value().values, ElementsAre(0.5f, 0.1f));
}

TEST(Npy, ReadsFortranOrder) {
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  Result<Matrix> matrix = ParseNpy(
      Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 3L)}", Bytes(columns)), "v");
  ASSERT_TRUE(matrix.ok()) << matrix.error().message();
  EXPECT_THAT(matrix.value().values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, HostileFilesAreRefused) {
  const std::string row = Bytes(std::vector<float>{1, 2});
  EXPECT_THAT(Fault(""), HasSubstr("v.npy: not a .npy file"));
  EXPECT_THAT(Fault("PK\x03\x04"), HasSubstr("not a .npy file"));
  EXPECT_THAT(Fault(std::string_view("\x93NUMPY\x01\x00\xFF", 9)), HasSubstr("cut off"));
  EXPECT_THAT(Fault(std::string_view("\x93NUMPY\x01\x00\xFF\xFFxx", 12)), HasSubstr("cut off"));
  EXPECT_THAT(Fault(std::string_view("\x93NUMPY\x09\x00\x00\x00xx", 12)),
              HasSubstr("version 9 is unknown"));
  EXPECT_THAT(Fault(Npy("{'descr': '<f4'}", row)), HasSubstr("no valid descr"));
  EXPECT_THAT(Fault(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}", row)),
              HasSubstr("no valid descr"));
  EXPECT_THAT(Fault(Npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1)}", row)),
              HasSubstr("elements of type '<i8'; supported: <f4, <f2, <f8"));
  EXPECT_THAT(Fault(Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1, 2)}", row)),
              HasSubstr("elements of type '>f4'"));
  EXPECT_THAT(Fault(Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", row)),
              HasSubstr("a structured type"));
  EXPECT_THAT(Fault(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", row)),
              HasSubstr("an array of shape (2); expected (texts, dimensions)"));
  EXPECT_THAT(Fault(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", row)),
              HasSubstr("an array of shape ()"));
  EXPECT_THAT(Fault(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", row)),
              HasSubstr("shape (2, 2) of '<f4' does not match the 8 bytes after the header"));
  // rows * columns * 4 is 8 modulo 2^64.
  EXPECT_THAT(Fault(Npy("{'descr': '<f4', 'fortran_order': False, "
                        "'shape': (4611686018427387905, 2)}",
                        row)),
              HasSubstr("does not match the 8 bytes"));
  EXPECT_THAT(Fault(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2)}", "")),
              HasSubstr("holds no vector"));
}

}  // namespace
}  // namespace sprat::cli
