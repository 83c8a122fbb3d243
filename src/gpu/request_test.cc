#include "gpu/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sprat::gpu {
namespace {

using ::testing::ElementsAre;

TokenBatch Batch(const std::vector<std::vector<uint32_t>>& sequences) {
  TokenBatch batch;
  for (const auto& sequence : sequences) batch.Append(sequence);
  return batch;
}

TEST(PlanPieces, FillsPiecesInOrder) {
  const TokenBatch batch = Batch({{1, 2, 3}, {4, 5}, {6}, {7, 8, 9, 10}, {11}});
  std::vector<Piece> pieces;
  PlanPieces(batch, {.tokens = 5, .sequences = 2}, pieces);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].end, 2u);  // 3 + 2 tokens
  EXPECT_EQ(pieces[0].tokens, 5u);
  EXPECT_EQ(pieces[1].first, 2u);  // 1 + 4 tokens, and no third sequence
  EXPECT_EQ(pieces[1].tokens, 5u);
  EXPECT_EQ(pieces[2].first, 4u);
  EXPECT_EQ(pieces[2].end, 5u);
  EXPECT_EQ(Longest(batch, pieces[0]), 3u);
  EXPECT_EQ(Longest(batch, pieces[1]), 4u);
}

TEST(WriteRequest, LaysOutWhatTheKernelsRead) {
  std::vector<uint32_t> longest(130);
  for (uint32_t i = 0; i < longest.size(); ++i) longest[i] = 1000 + i;
  const TokenBatch batch = Batch({{7}, {5, 6}, longest});
  const RequestLayout layout{.tokens = 144, .sequences = 2};
  std::vector<std::byte> out(layout.Bytes(), std::byte{0xff});
  const Piece piece{.first = 1, .end = 3, .tokens = 132};
  EXPECT_EQ(WriteRequest(batch, piece, {.columns = 256, .normalize = true}, layout, out), 4u);
  const auto& header = *reinterpret_cast<const RequestHeader*>(out.data());
  EXPECT_EQ(header.tokens, 132u);
  EXPECT_EQ(header.sequences, 2u);
  EXPECT_EQ(header.items, 4u);
  EXPECT_EQ(header.columns, 256u);
  EXPECT_EQ(header.normalize, 1u);
  const auto* items = reinterpret_cast<const AttentionItem*>(out.data() + layout.ItemsAt());
  EXPECT_EQ(items[0].first, 0u);
  EXPECT_EQ(items[0].length, 2u);
  EXPECT_EQ(items[3].first, 2u);
  EXPECT_EQ(items[3].length, 130u);
  EXPECT_EQ(items[3].query, 128u);
  const auto* ids = reinterpret_cast<const uint32_t*>(out.data() + layout.IdsAt());
  const auto* positions = reinterpret_cast<const uint32_t*>(out.data() + layout.PositionsAt());
  EXPECT_THAT(std::vector<uint32_t>(ids, ids + 4), ElementsAre(5, 6, 1000, 1001));
  EXPECT_THAT(std::vector<uint32_t>(positions, positions + 4), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(ids[131], 1129u);
  EXPECT_EQ(positions[131], 129u);
  for (uint32_t t = 132; t < 144; ++t) EXPECT_EQ(ids[t] + positions[t], 0u);
  const auto* offsets = reinterpret_cast<const uint32_t*>(out.data() + layout.OffsetsAt());
  EXPECT_THAT(std::vector<uint32_t>(offsets, offsets + 3), ElementsAre(0, 2, 132));
}

// The most items a layout can be asked to hold: many short sequences, and long ones one over 64.
TEST(RequestLayout, ItemsIsABound) {
  for (uint32_t length = 1; length <= 512; ++length) {
    const RequestLayout layout{.tokens = 7 * length, .sequences = 7};
    EXPECT_LE(7 * Items(length), layout.Items()) << length;
  }
}

}  // namespace
}  // namespace sprat::gpu
