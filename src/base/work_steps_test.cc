#include "base/work_steps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace sprat {
namespace {

using std::chrono::milliseconds;

TEST(ShareOf, CoversEveryItemOnceInOrder) {
  for (const size_t size : {1, 2, 3, 7, 8}) {
    for (const size_t items : {0, 1, 5, 8, 24, 1000}) {
      size_t next = 0;
      for (size_t rank = 0; rank < size; ++rank) {
        const Share share = ShareOf(items, rank, size);
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.end - share.begin, items / size + 1);
        next = share.end;
      }
      EXPECT_EQ(next, items);
    }
  }
}

// One thread plays all members, one after the other.
TEST(WorkSteps, AMemberDoesTheShareOfThoseWhoDoNotCome) {
  WorkSteps steps(3);
  Member first(steps, 0);
  std::vector<int> done(10);
  first.ForEach(10, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) ++done[i];
  });
  EXPECT_EQ(done, std::vector<int>(10, 1));
}

TEST(WorkSteps, WhoIsLatePassesTheStepsThatAreDone) {
  WorkSteps steps(2);
  Member first(steps, 0);
  Member late(steps, 1);
  for (int step = 0; step < 5; ++step) first.ForEach(7, [](size_t, size_t) {});
  int runs = 0;
  for (int step = 0; step < 5; ++step) late.ForEach(7, [&](size_t, size_t) { ++runs; });
  EXPECT_EQ(runs, 0);
  late.ForEach(7, [&](size_t, size_t) { ++runs; });  // the sixth is new
  EXPECT_GT(runs, 0);
}

TEST(WorkSteps, ALongShareIsTakenInFewRunsThatGetShorter) {
  WorkSteps steps(2);
  Member member(steps, 0);
  std::vector<size_t> ends;
  member.ForEach(32, [&](size_t, size_t end) { ends.push_back(end); });
  // Its own 16 by halves: 8, 4, 2, 1, 1; then the other's 16 by quarters.
  ASSERT_GE(ends.size(), 8u);
  ends.resize(8);
  EXPECT_EQ(ends, (std::vector<size_t>{8, 12, 14, 15, 16, 20, 23, 25}));
}

TEST(WorkSteps, AStepWithoutItemsIsNone) {
  WorkSteps steps(2);
  Member member(steps, 0);
  member.ForEach(0, [](size_t, size_t) { FAIL(); });
  int runs = 0;
  member.ForEach(1, [&](size_t, size_t) { ++runs; });  // of the other's share
  EXPECT_EQ(runs, 1);
}

class RunStepsTest : public testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(Sizes, RunStepsTest, testing::Values(1, 2, 3, 4, 16));

constexpr size_t kRounds{20};

// Each value becomes its sum with its neighbour's, kRounds times.
void PassSums(Member& member, std::vector<size_t>& value, std::vector<size_t>& next) {
  const size_t items = value.size();
  for (size_t round = 0; round < kRounds; ++round) {
    member.ForEach(items, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) next[i] = value[i] + value[(i + 1) % items];
    });
    member.ForEach(items, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) value[i] = next[i];
    });
  }
}

// Wrong, and a data race for the thread sanitizer, if an item is done twice or not at all, or if a
// step lets anyone through early.
TEST_P(RunStepsTest, EachItemIsDoneOnceAndSeenByAll) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  for (const size_t items : {1, 3, 40}) {
    for (int region = 0; region < 50; ++region) {
      std::vector<size_t> value(items, 1);
      std::vector<size_t> next(items);
      pool->RunSteps([&](Member& member) { PassSums(member, value, next); });
      for (const size_t v : value) ASSERT_EQ(v, size_t{1} << kRounds) << items;
    }
  }
}

TEST_P(RunStepsTest, BothKindsOfRegionAlternate) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  std::vector<size_t> calls(GetParam());
  size_t items_done = 0;
  for (size_t region = 1; region <= 100; ++region) {
    pool->RunSteps(
        [&](Member& member) { member.ForEach(1, [&](size_t, size_t) { ++items_done; }); });
    pool->Run([&](size_t rank, Team&) { ++calls[rank]; });
    ASSERT_EQ(items_done, region);
    for (const size_t n : calls) ASSERT_EQ(n, region);
  }
}

TEST_P(RunStepsTest, ASlowItemIsWaitedFor) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  std::vector<int> done(64);
  pool->RunSteps([&](Member& member) {
    member.ForEach(done.size(), [&](size_t begin, size_t end) {
      if (begin == 0) std::this_thread::sleep_for(milliseconds(5));  // others sleep too
      for (size_t i = begin; i < end; ++i) done[i] = 1;
    });
    EXPECT_EQ(done, std::vector<int>(64, 1));
  });
}

TEST(RunSteps, NobodyWaitsForAMemberThatHasNoItem) {
  const auto pool = ThreadPool::Create(2).value();
  std::atomic<bool> release{false};
  pool->RunSteps([&](Member& member) {
    while (member.rank() == 1 && !release) std::this_thread::yield();
    size_t items = 0;
    member.ForEach(8, [&](size_t begin, size_t end) { items += end - begin; });
    EXPECT_EQ(items, member.rank() == 0 ? 8u : 0u);
    release = true;
  });
}

}  // namespace
}  // namespace sprat
