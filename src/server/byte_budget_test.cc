#include "server/byte_budget.h"

#include <gtest/gtest.h>

#include <utility>

namespace sprat::server {
namespace {

constexpr size_t kMega{1 << 20};
constexpr size_t kSmall{ByteBudget::kSmallBytes};

TEST(ByteBudget, LargeRequestsGetSevenEighths) {
  ByteBudget budget(8 * kMega);
  EXPECT_TRUE(budget.Change(0, 4 * kMega));
  EXPECT_TRUE(budget.Change(0, 3 * kMega));
  EXPECT_FALSE(budget.Change(0, kSmall + 1));
  EXPECT_EQ(budget.held(), 7 * kMega);
  EXPECT_TRUE(budget.Change(4 * kMega, 2 * kMega));
  EXPECT_TRUE(budget.Change(0, 2 * kMega));
  EXPECT_FALSE(budget.Change(3 * kMega, 3 * kMega + 1));
  EXPECT_EQ(budget.held(), 7 * kMega);
}

TEST(ByteBudget, SmallRequestsGetWhatIsLeft) {
  ByteBudget budget(8 * kMega);
  ASSERT_TRUE(budget.Change(0, 7 * kMega));
  for (size_t i = 0; i < kMega / kSmall; ++i) ASSERT_TRUE(budget.Change(0, kSmall)) << i;
  EXPECT_FALSE(budget.Change(0, 1));
  EXPECT_TRUE(budget.Change(kSmall, 0));
  EXPECT_TRUE(budget.Change(0, 1));
}

TEST(ByteBudget, SmallRequestsMayHaveAllOfIt) {
  ByteBudget budget(4 * kSmall);
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(budget.Change(0, kSmall)) << i;
  EXPECT_TRUE(budget.Change(0, kSmall + 1)) << "there is no other large request";
  EXPECT_FALSE(budget.Change(0, kSmall)) << "3 of 4 and what a large one may have of the rest";
}

TEST(ByteBudget, ALargeRequestThatIsAloneMayBeBeyondTheLimit) {
  ByteBudget budget(kMega);
  ASSERT_TRUE(budget.Change(0, 3 * kMega));
  EXPECT_FALSE(budget.Change(0, kSmall + 1));
  EXPECT_TRUE(budget.Change(0, kSmall)) << "small ones keep their eighth beside it";
  EXPECT_TRUE(budget.Change(3 * kMega, 5 * kMega)) << "it grows as long as it is alone";
  EXPECT_TRUE(budget.Change(5 * kMega, 2 * kMega)) << "holding less is always granted";
  EXPECT_TRUE(budget.Change(2 * kMega, 0));
  EXPECT_EQ(budget.held(), kSmall);
}

TEST(ByteBudget, ASmallRequestThatIsAloneIsTaken) {
  ByteBudget budget(1);
  EXPECT_TRUE(budget.Change(0, 100));
  EXPECT_FALSE(budget.Change(0, 100));
  EXPECT_TRUE(budget.Change(100, 200));
}

TEST(HeldBytes, ShrinksOnlyWhatIsLarge) {
  ByteBudget budget(8 * kMega);
  HeldBytes held(budget);
  ASSERT_TRUE(held.Resize(kMega));
  held.Shrink(kSmall);
  EXPECT_EQ(budget.held(), kSmall);
  held.Shrink(1);
  EXPECT_EQ(budget.held(), kSmall);
  EXPECT_EQ(held.bytes(), kSmall);
}

TEST(HeldBytes, GivesBackWhatItHolds) {
  ByteBudget budget(8 * kMega);
  {
    HeldBytes first(budget);
    EXPECT_TRUE(first.Resize(5 * kMega));
    HeldBytes second(std::move(first));
    EXPECT_EQ(second.bytes(), 5 * kMega);
    HeldBytes third(budget);
    EXPECT_FALSE(third.Resize(4 * kMega));
    EXPECT_EQ(third.bytes(), 0u);
    EXPECT_TRUE(third.Resize(kMega));
    third = std::move(second);
    EXPECT_EQ(budget.held(), 5 * kMega);
  }
  EXPECT_EQ(budget.held(), 0u);
}

}  // namespace
}  // namespace sprat::server
