#include "gpu/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace sprat::gpu {
namespace {

TEST(PanelOffset, MatchesValuesWorkedOutByHand) {
  EXPECT_EQ(PanelOffset(0, 0, 128), 0u);
  EXPECT_EQ(PanelOffset(0, 9, 128), 9u);              // row 0: chunks stay where they are
  EXPECT_EQ(PanelOffset(1, 0, 128), 64u + 8u);        // chunk 0 of row 1 goes to place 1
  EXPECT_EQ(PanelOffset(3, 20, 128), 3 * 64u + 12u);  // chunk 2 ^ 3 = 1, element 4 of it
  EXPECT_EQ(PanelOffset(9, 64, 128), 128 * 64u + 9 * 64u + 8u);  // the second panel
}

TEST(PanelOffset, GivesEveryElementItsOwnPlace) {
  constexpr size_t kRows{24}, kColumns{128};
  std::vector<int> seen(kRows * kColumns, 0);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      ASSERT_LT(PanelOffset(row, column, kRows), seen.size());
      ++seen[PanelOffset(row, column, kRows)];
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(PanelOffset, PutsEightRowsOfOneColumnInDifferentBanks) {
  for (size_t column = 0; column < kPanel; column += 8) {
    std::set<size_t> chunks;
    for (size_t row = 0; row < 8; ++row) chunks.insert(PanelOffset(row, column, 8) / 8 % 8);
    EXPECT_EQ(chunks.size(), 8u) << "column " << column;
  }
}

TEST(StateOffset, MatchesValuesWorkedOutByHand) {
  EXPECT_EQ(StateOffset(0, 1), 1u);
  EXPECT_EQ(StateOffset(8, 1), 3u);          // the lower half of the same lane
  EXPECT_EQ(StateOffset(0, 2), 4u);          // the next lane
  EXPECT_EQ(StateOffset(1, 0), 16u);         // four lanes on
  EXPECT_EQ(StateOffset(0, 8), 128u);        // the next tile
  EXPECT_EQ(StateOffset(16, 0), 48 * 128u);  // the next 16 rows
  EXPECT_EQ(StateOffset(31, 383), 2 * 48 * 128 - 1u);
}

TEST(StateOffset, GivesEveryElementItsOwnPlace) {
  std::vector<int> seen(32 * kHidden, 0);
  for (size_t row = 0; row < 32; ++row) {
    for (size_t column = 0; column < kHidden; ++column) ++seen[StateOffset(row, column)];
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(NormColumn, OwnsEveryPairOnce) {
  std::set<uint32_t> columns;
  for (uint32_t lane = 0; lane < kNormLanes; ++lane) {
    for (uint32_t j = 0; j < kNormPairs; ++j) {
      EXPECT_EQ(NormColumn(lane, j) % 8, 2 * (lane % 4));  // what thread lane % 4 of a quad holds
      columns.insert(NormColumn(lane, j));
    }
  }
  EXPECT_EQ(columns.size(), kHidden / 2);
}

TEST(WeightLayout, PartsFollowEachOtherWithoutOverlap) {
  constexpr WeightLayout kLayout{.vocabulary = 10, .positions = 6, .layers = 2};
  std::map<size_t, size_t> parts;  // place -> bytes
  parts[kLayout.WordsAt()] = 10 * kHidden * 2;
  parts[kLayout.PositionsAt()] = 6 * kHidden * 2;
  for (uint32_t norm = 0; norm <= 4; ++norm) parts[kLayout.NormAt(norm)] = 2 * kHidden * 4;
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (const Matrix matrix : kMatrices) {
      parts[kLayout.MatrixAt(layer, matrix)] = size_t{2} * Rows(matrix) * Columns(matrix);
      parts[kLayout.BiasAt(layer, matrix)] = size_t{4} * Rows(matrix);
    }
  }
  EXPECT_EQ(parts.size(), 2 + 5 + 2 * 8u);
  size_t end = 0;
  for (const auto& [at, bytes] : parts) {
    EXPECT_GE(at, end);
    EXPECT_EQ(at % 1024, 0u);
    end = at + bytes;
  }
  EXPECT_LE(end, kLayout.Bytes());
  EXPECT_LT(kLayout.NormAt(1), kLayout.LayerAt(1));
  EXPECT_GT(kLayout.NormAt(3), kLayout.LayerAt(1));
}

// Each step may read only what a step before it wrote.
TEST(PlanSteps, ReadOnlyWhatWasWritten) {
  for (const Path path : {Path::kQuery, Path::kRow, Path::kTile}) {
    std::set<Buffer> written = {Buffer::kRequest};
    for (const Step& step : PlanSteps(path, 3)) {
      EXPECT_TRUE(written.contains(step.in)) << static_cast<int>(step.operation);
      const bool residual = step.operation == Operation::kLinearResidual ||
                            step.operation == Operation::kLinearResidualNorm;
      if (residual) {
        EXPECT_TRUE(written.contains(Buffer::kState));
      }
      written.insert(step.out);
      if (step.operation == Operation::kNormLinear || step.operation == Operation::kNormAttend ||
          step.operation == Operation::kNormLinearGelu) {
        written.insert(Buffer::kState);
      }
      if (step.out == Buffer::kState) written.insert(Buffer::kOperand);
    }
    EXPECT_TRUE(written.contains(Buffer::kResult));
  }
}

TEST(PlanSteps, HasFiveLaunchesALayerAndFourForAQuery) {
  EXPECT_EQ(PlanSteps(Path::kQuery, 6).size(), 26u);
  EXPECT_EQ(PlanSteps(Path::kRow, 6).size(), 32u);
  EXPECT_EQ(PlanSteps(Path::kTile, 6).size(), 32u);
}

TEST(GraphBucket, HoldsItsTokens) {
  EXPECT_EQ(GraphBucket(1), 16u);
  EXPECT_EQ(GraphBucket(16), 16u);
  EXPECT_EQ(GraphBucket(17), 32u);
  EXPECT_EQ(GraphBucket(65), 128u);
  EXPECT_EQ(GraphBucket(512), 512u);
  EXPECT_EQ(GraphBucket(513), 0u);
}

TEST(RowTile, FitsSharedMemory) {
  EXPECT_EQ(RowTileOf(Matrix::kDown, 16).SharedBytes(Matrix::kDown), 98304u);  // GPUs with 99 KB
  EXPECT_LE(RowTileOf(Matrix::kDown, 32).SharedBytes(Matrix::kDown), 163 * 1024u);  // sm_80
}

TEST(CheckShape, NamesWhatDoesNotFit) {
  EncoderConfig config{
      .layers = 6, .hidden = 384, .heads = 12, .ffn = 1536, .vocabulary = 30522, .positions = 512};
  EXPECT_TRUE(CheckShape(config).ok());
  config.hidden = 768;
  const Result<void> wide = CheckShape(config);
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(wide.error().message(), ::testing::HasSubstr("hidden_size is 768"));
  config.hidden = 384;
  config.activation = Activation::kRelu;
  EXPECT_FALSE(CheckShape(config).ok());
}

}  // namespace
}  // namespace sprat::gpu
