#include "batcher/policy.h"

#include <gtest/gtest.h>

namespace sprat {
namespace {

using std::chrono::milliseconds;

Clock::time_point At(int ms) { return Clock::time_point(milliseconds(ms)); }

// The fixed window of the specification: 25 ms, 16 requests.
constexpr BatchLimits kFixed{.window = milliseconds(25), .max_batch = 16, .max_tokens = 100};

TEST(DueAt, NothingWaitsNothingIsDue) {
  EXPECT_EQ(DueAt(kFixed, {}), std::nullopt);
  EXPECT_EQ(DueAt({}, {}), std::nullopt);
}

TEST(DueAt, OneWindowAfterTheOldest) {
  EXPECT_EQ(DueAt(kFixed, {.requests = 1, .tokens = 5, .oldest = At(100)}), At(125));
  EXPECT_EQ(DueAt(kFixed, {.requests = 15, .tokens = 99, .oldest = At(100)}), At(125));
}

TEST(DueAt, AFullBatchIsDueAtOnce) {
  EXPECT_EQ(DueAt(kFixed, {.requests = 16, .tokens = 16, .oldest = At(100)}), At(100));
  EXPECT_EQ(DueAt(kFixed, {.requests = 2, .tokens = 100, .oldest = At(100)}), At(100));
}

TEST(DueAt, WindowZeroIsDueAtOnce) {
  EXPECT_EQ(DueAt({}, {.requests = 1, .tokens = 5, .oldest = At(100)}), At(100));
}

TEST(Admit, CountsRequests) {
  const BatchLimits limits{.max_queue_requests = 3};
  EXPECT_TRUE(Admit(limits, {.requests = 2, .tokens = 9}, 1).ok());
  const Result<void> full = Admit(limits, {.requests = 3, .tokens = 9}, 1);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(full.error().message(), "the queue is full: 3 requests are waiting, the limit is 3");
}

TEST(Admit, CountsTokens) {
  const BatchLimits limits{.max_queue_tokens = 10};
  EXPECT_TRUE(Admit(limits, {.requests = 1, .tokens = 7}, 3).ok());
  const Result<void> full = Admit(limits, {.requests = 1, .tokens = 7}, 4);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(full.error().message(),
            "the queue is full: 7 tokens are waiting and this request has 4, the limit is 10");
}

TEST(Admit, AnEmptyQueueTakesAnySize) {
  const BatchLimits limits{.max_queue_tokens = 10};
  EXPECT_TRUE(Admit(limits, {}, 11).ok());
  // And the next one is refused, although 10 - 11 is negative.
  EXPECT_FALSE(Admit(limits, {.requests = 1, .tokens = 11}, 1).ok());
}

TEST(Room, EndsAtTheNumberOfTexts) {
  Room room(2, 100);
  EXPECT_TRUE(room.Add(1));
  EXPECT_TRUE(room.Add(1));
  EXPECT_FALSE(room.Add(1));
}

TEST(Room, EndsAtTheNumberOfTokens) {
  Room room(10, 8);
  EXPECT_TRUE(room.Add(5));
  EXPECT_FALSE(room.Add(4));
  EXPECT_TRUE(room.Add(3));
  EXPECT_FALSE(room.Add(1));
  EXPECT_TRUE(room.Add(0));
}

TEST(Room, TheFirstTextAlwaysFits) {
  Room room(10, 8);
  EXPECT_TRUE(room.Add(9));
  EXPECT_FALSE(room.Add(1));
}

TEST(CheckLimits, NamesTheLimit) {
  EXPECT_TRUE(CheckLimits({}).ok());
  EXPECT_EQ(CheckLimits({.max_batch = 0}).error().message(), "max_batch must be at least 1, got 0");
  EXPECT_EQ(CheckLimits({.max_queue_tokens = 0}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CheckLimits({.window = milliseconds(-1)}).error().message(),
            "window must not be negative");
}

TEST(BatchLimits, ArraysHoldTheDeviceOnlyWithAWindow) {
  EXPECT_FALSE(BatchLimits{}.ArrayHold());
  EXPECT_TRUE(kFixed.ArrayHold());
  EXPECT_TRUE((BatchLimits{.array_hold = true}.ArrayHold()));
  EXPECT_FALSE((BatchLimits{.window = milliseconds(1), .array_hold = false}.ArrayHold()));
}

}  // namespace
}  // namespace sprat
