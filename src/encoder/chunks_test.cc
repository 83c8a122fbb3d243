#include "encoder/chunks.h"

#include <gtest/gtest.h>

#include <vector>

namespace sprat {
namespace {

ChunkPlan PlanOf(const std::vector<size_t>& lengths, const ChunkLimits& limits) {
  std::vector<size_t> offsets = {0};
  for (const size_t length : lengths) offsets.push_back(offsets.back() + length);
  ChunkPlan plan;
  PlanChunks(offsets, limits, plan);
  size_t next = 0;
  for (const Chunk& chunk : plan.chunks) {  // whole, in order, within the limit
    EXPECT_EQ(chunk.first, next);
    EXPECT_GT(chunk.end, chunk.first);
    const size_t tokens = offsets[chunk.end] - offsets[chunk.first];
    EXPECT_TRUE(tokens <= limits.tokens || chunk.end == chunk.first + 1);
    next = chunk.end;
  }
  EXPECT_EQ(next, lengths.size());
  EXPECT_LE(plan.alone, plan.chunks.size());
  return plan;
}

TEST(PlanChunks, NothingIsNoChunk) {
  EXPECT_TRUE(PlanOf({}, {.threads = 2, .tokens = 128}).chunks.empty());
}

TEST(PlanChunks, AQueryIsWorkForAllTogether) {
  const ChunkPlan plan = PlanOf({12}, {.threads = 2, .tokens = 128});
  EXPECT_EQ(plan.chunks.size(), 1u);
  EXPECT_EQ(plan.alone, 0u);
}

TEST(PlanChunks, ALongTextIsWorkForAllTogetherToo) {
  const ChunkPlan plan = PlanOf({500}, {.threads = 2, .tokens = 128});
  EXPECT_EQ(plan.chunks.size(), 1u);
  EXPECT_EQ(plan.alone, 0u);
}

TEST(PlanChunks, ManyTextsAreEquallyMuchForEachThreadAlone) {
  // 40 x 32 = 1280 tokens for 2 threads: 10 chunks of 4 texts.
  const ChunkPlan plan = PlanOf(std::vector<size_t>(40, 32), {.threads = 2, .tokens = 128});
  EXPECT_EQ(plan.chunks.size(), 10u);
  EXPECT_EQ(plan.alone, 10u);
}

TEST(PlanChunks, OneChunkIsLeftForWhoeverIsReady) {
  // 64 x 9 = 576 tokens: 7 chunks of at least 83 tokens are 6 of 10 texts and 1 of 4.
  const ChunkPlan plan = PlanOf(std::vector<size_t>(64, 9), {.threads = 2, .tokens = 128});
  EXPECT_EQ(plan.chunks.size(), 7u);
  EXPECT_EQ(plan.alone, 6u);
  EXPECT_EQ(plan.chunks.back().end - plan.chunks.back().first, 4u);
}

TEST(PlanChunks, WhatDoesNotGoRoundIsDoneTogether) {
  const ChunkPlan plan = PlanOf({128, 128, 128}, {.threads = 2, .tokens = 128});
  EXPECT_EQ(plan.chunks.size(), 3u);
  EXPECT_EQ(plan.alone, 2u);
}

TEST(PlanChunks, OneThreadIsAlwaysAlone) {
  const ChunkPlan plan = PlanOf({3, 500, 4}, {.threads = 1, .tokens = 128});
  EXPECT_EQ(plan.alone, plan.chunks.size());
}

TEST(PlanChunks, AnyLengthsAreCoveredWithinTheLimit) {
  for (size_t seed = 1; seed < 200; ++seed) {
    std::vector<size_t> lengths;
    for (size_t i = 0; i < seed; ++i) lengths.push_back(1 + (i * seed * 31) % 300);
    for (const size_t threads : {1, 2, 3, 8, 64}) {
      PlanOf(lengths, {.threads = threads, .tokens = 128});
    }
  }
}

}  // namespace
}  // namespace sprat
