#include "cli/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sprat::cli {
namespace {

Matrix Rows(std::vector<float> values, size_t columns) {
  const size_t rows = values.size() / columns;
  return {.values = std::move(values), .rows = rows, .columns = columns};
}

TEST(Agreement, EqualVectorsAgree) {
  const Matrix m = Rows({1, 0, 0, 1, 3, 4}, 2);
  const Agreement a = Compare(m, m);
  EXPECT_DOUBLE_EQ(a.min_cosine, 1);
  EXPECT_DOUBLE_EQ(a.mean_cosine, 1);
  EXPECT_EQ(a.max_difference, 0);
  EXPECT_EQ(a.min_length_ratio, 1);
  EXPECT_EQ(a.k, 2u);
  EXPECT_EQ(a.recall, 1.0);
}

TEST(Agreement, TheWorstRowIsNamed) {
  const Agreement a = Compare(Rows({1, 0, 3, 4}, 2), Rows({2, 0, 4, 3}, 2));
  EXPECT_DOUBLE_EQ(a.min_cosine, 0.96);  // (3 4 + 4 3) / 25
  EXPECT_EQ(a.worst_row, 1u);
  EXPECT_DOUBLE_EQ(a.mean_cosine, 0.98);
  EXPECT_DOUBLE_EQ(a.max_difference, 1);
  EXPECT_DOUBLE_EQ(a.min_length_ratio, 0.5);
  EXPECT_DOUBLE_EQ(a.max_length_ratio, 1);
}

TEST(Agreement, ZeroRows) {
  EXPECT_EQ(Compare(Rows({0, 0}, 2), Rows({0, 0}, 2)).min_cosine, 1);
  EXPECT_EQ(Compare(Rows({0, 0}, 2), Rows({1, 0}, 2)).min_cosine, 0);
  EXPECT_EQ(Compare(Rows({0, 0}, 2), Rows({1, 0}, 2)).max_length_ratio, 1);
}

TEST(Agreement, OneRowHasNoNeighbours) {
  EXPECT_FALSE(Compare(Rows({1, 0}, 2), Rows({1, 0}, 2)).recall.has_value());
}

TEST(Agreement, NanIsNeverAgreement) {
  const Agreement a = Compare(Rows({NAN, 0, 1, 0}, 2), Rows({1, 0, 1, 0}, 2));
  EXPECT_TRUE(std::isnan(a.min_cosine));
  EXPECT_EQ(a.worst_row, 0u);
}

// Points on the unit circle, 1 degree apart: the nearest ten of a point are known.
Matrix Circle(size_t n, double step_degrees) {
  Matrix m{.values = {}, .rows = n, .columns = 2};
  for (size_t i = 0; i < n; ++i) {
    const double angle = static_cast<double>(i) * step_degrees * M_PI / 180;
    m.values.push_back(static_cast<float>(std::cos(angle)));
    m.values.push_back(static_cast<float>(std::sin(angle)));
  }
  return m;
}

TEST(Agreement, RecallCountsSharedNeighbours) {
  EXPECT_EQ(Compare(Circle(40, 1), Circle(40, 2)).recall, 1.0);  // the same order all along
  Matrix reversed = Circle(40, 1);
  // The second half of the rows moves to the opposite side, in the order of the first: rows 20..39
  // keep their neighbours among themselves but for those across the seam.
  for (size_t i = 40; i < 80; ++i) reversed.values[i] = -reversed.values[i];
  const Agreement a = Compare(reversed, Circle(40, 1));
  // Near the seam d rows away (d = 0..4 on both sides) 5 - d of ten neighbours are lost.
  EXPECT_NEAR(*a.recall, 1 - 2 * (5 + 4 + 3 + 2 + 1) / 400.0, 1e-9);
}

TEST(Agreement, EqualTextsMayComeInAnyOrder) {
  // Rows 1 to 20 are equal: which ten of them are found does not matter.
  std::vector<float> values = {1, 0};
  for (int i = 0; i < 20; ++i) values.insert(values.end(), {0.6f, 0.8f});
  std::vector<float> noisy = values;
  for (size_t i = 2; i < noisy.size(); i += 2) noisy[i] += 1e-7f * static_cast<float>(i % 3);
  EXPECT_EQ(Compare(Rows(values, 2), Rows(noisy, 2)).recall, 1.0);
}

}  // namespace
}  // namespace sprat::cli
