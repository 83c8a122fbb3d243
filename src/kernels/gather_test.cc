#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/guarded_for_test.h"
#include "kernels/kernels.h"

namespace sprat {
namespace {

class Gather : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Tables, Gather, testing::ValuesIn(RunnableKernels()),
                         [](const auto& table) { return std::string(table.param->name); });

TEST_P(Gather, MatchesHandComputedValues) {
  const float table[] = {1, 2, 3, 10, 20, 30, -4, 0, 0.5f};
  const uint32_t rows[] = {2, 0, 2};
  const float weights[] = {1, 2, 0.5f};
  float out[3];
  GatherArgs args{.table = table,
                  .type = RowType::kF32,
                  .stride = 3,
                  .rows = rows,
                  .weights = weights,
                  .count = 3,
                  .columns = 3,
                  .scale = 0.5f,
                  .out = out};
  k().gather_rows(args);
  EXPECT_EQ(out[0], -2.0f);   // (-4 + 2 - 2) / 2
  EXPECT_EQ(out[1], 2.0f);    // (0 + 4 + 0) / 2
  EXPECT_EQ(out[2], 3.375f);  // (0.5 + 6 + 0.25) / 2
  args.weights = nullptr;
  args.columns = 2;
  out[2] = 7.0f;
  k().gather_rows(args);
  EXPECT_EQ(out[0], -3.5f);  // (-4 + 1 - 4) / 2
  EXPECT_EQ(out[1], 1.0f);
  EXPECT_EQ(out[2], 7.0f);  // beyond `columns`
}

// 1, -2, 65504 (the largest), 2^-24 (the smallest subnormal), -0.5 and 0 in binary16.
TEST_P(Gather, ReadsEveryHalf) {
  const uint16_t table[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0xb800, 0x8000};
  const uint32_t row = 0;
  float out[6];
  k().gather_rows({.table = table,
                   .type = RowType::kF16,
                   .stride = 6,
                   .rows = &row,
                   .weights = nullptr,
                   .count = 1,
                   .columns = 6,
                   .scale = 1.0f,
                   .out = out});
  const float expected[] = {1.0f, -2.0f, 65504.0f, 0x1p-24f, -0.5f, 0.0f};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST_P(Gather, ReadsEveryByte) {
  std::vector<int8_t> table(256);
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = static_cast<int8_t>(i - 128);
  const uint32_t row = 0;
  std::vector<float> out(256);
  k().gather_rows({.table = table.data(),
                   .type = RowType::kI8,
                   .stride = 256,
                   .rows = &row,
                   .weights = nullptr,
                   .count = 1,
                   .columns = 256,
                   .scale = 1.0f,
                   .out = out.data()});
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(out[static_cast<size_t>(i)], static_cast<float>(i - 128));
  }
}

// A table of one type: small whole numbers, exact in all, in memory that ends with the last row, so
// that the address sanitizer sees a read beyond it.
struct Table {
  RowType type;
  std::vector<char> bytes;
  std::vector<double> values;
};

Table RandomTable(RowType type, size_t elements, std::mt19937& random) {
  Table table{.type = type, .bytes = {}, .values = {}};
  for (size_t i = 0; i < elements; ++i) {
    const auto value = static_cast<int8_t>(random() % 9 - 4);  // 0x4400 is 4.0 in binary16
    constexpr uint16_t kHalves[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400};
    const auto half = static_cast<uint16_t>(kHalves[std::abs(value)] | (value < 0 ? 0x8000 : 0));
    const float f32 = value;
    const char* first = type == RowType::kF32   ? reinterpret_cast<const char*>(&f32)
                        : type == RowType::kF16 ? reinterpret_cast<const char*>(&half)
                                                : reinterpret_cast<const char*>(&value);
    table.bytes.insert(table.bytes.end(), first,
                       first + (type == RowType::kF32   ? 4
                                : type == RowType::kF16 ? 2
                                                        : 1));
    table.values.push_back(value);
  }
  table.bytes.shrink_to_fit();
  return table;
}

TEST_P(Gather, IsWithinTheBoundForOddSizesAndTypes) {
  std::mt19937 random(7);
  constexpr size_t kRows{9};
  for (const RowType type : {RowType::kF32, RowType::kF16, RowType::kI8}) {
    for (const size_t columns : {1, 15, 16, 17, 63, 64, 65, 256, 257, 300}) {
      const Table table = RandomTable(type, kRows * columns, random);
      for (const size_t count : {1, 2, 5, 40}) {
        std::vector<uint32_t> rows(count);
        for (uint32_t& row : rows) row = static_cast<uint32_t>(random() % kRows);
        const Guarded weights({.rows = 1, .columns = count}, count);
        const Guarded out({.rows = 1, .columns = columns});
        k().gather_rows({.table = table.bytes.data(),
                         .type = type,
                         .stride = columns,
                         .rows = rows.data(),
                         .weights = weights.Row(0),
                         .count = count,
                         .columns = columns,
                         .scale = 0.25f,
                         .out = out.Row(0)});
        ASSERT_TRUE(out.GuardsIntact());
        for (size_t c = 0; c < columns; ++c) {
          double exact = 0;
          double magnitude = 0;
          for (size_t t = 0; t < count; ++t) {
            const double term = weights.Row(0)[t] * table.values[rows[t] * columns + c];
            exact += term / 4;
            magnitude += std::fabs(term) / 4;
          }
          ASSERT_NEAR(out.Row(0)[c], exact,
                      static_cast<double>(count + 1) * kUnitRoundoff * magnitude)
              << "columns " << columns << ", count " << count << ", column " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sprat
