#include "engine/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sprat {
namespace {

using testing::ElementsAre;

BatchPlan Plan(std::vector<size_t> lengths, size_t max_tokens) {
  BatchPlan plan;
  PlanBatches(lengths, max_tokens, plan);
  return plan;
}

TEST(PlanBatches, LongestFirstAndTiesInOrder) {
  const BatchPlan plan = Plan({3, 9, 3, 5}, 100);
  EXPECT_THAT(plan.order, ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(plan.ends, ElementsAre(4));
}

TEST(PlanBatches, CutsBeforeTheLimitIsExceeded) {
  const BatchPlan plan = Plan({4, 4, 4, 2}, 8);  // 4 + 4 | 4 + 2
  EXPECT_THAT(plan.ends, ElementsAre(2, 4));
  EXPECT_THAT(plan.Batch(0), ElementsAre(0, 1));
  EXPECT_THAT(plan.Batch(1), ElementsAre(2, 3));
}

TEST(PlanBatches, ASequenceOverTheLimitRunsAlone) {
  const BatchPlan plan = Plan({20, 1, 30}, 8);
  EXPECT_THAT(plan.order, ElementsAre(2, 0, 1));
  EXPECT_THAT(plan.ends, ElementsAre(1, 2, 3));
}

TEST(PlanBatches, EmptySequencesCostNothing) {
  const BatchPlan plan = Plan({0, 8, 0}, 8);
  EXPECT_THAT(plan.order, ElementsAre(1, 0, 2));
  EXPECT_THAT(plan.ends, ElementsAre(3));
}

TEST(PlanBatches, NothingIsNoBatch) {
  BatchPlan plan = Plan({1, 2}, 8);
  PlanBatches({}, 8, plan);
  EXPECT_EQ(plan.batches(), 0u);
}

}  // namespace
}  // namespace sprat
