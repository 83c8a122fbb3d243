#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <cfenv>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

namespace sprat {
namespace {

using std::chrono::milliseconds;

class ThreadPoolTest : public testing::TestWithParam<size_t> {};

// More threads than any machine of ours has cores, too.
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, testing::Values(1, 2, 3, 4, 16));

TEST_P(ThreadPoolTest, EveryRankRunsOncePerRegion) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  EXPECT_EQ(pool->size(), GetParam());
  std::vector<size_t> calls(GetParam());  // not atomic: each rank has its own
  for (size_t region = 1; region <= 200; ++region) {
    pool->Run([&](size_t rank, Team& team) {
      ASSERT_EQ(team.size(), GetParam());
      ++calls[rank];
    });
    for (const size_t n : calls) ASSERT_EQ(n, region);
  }
}

// A sum that passes from rank to rank over barriers: wrong, and a data race for the thread
// sanitizer, if a barrier lets anyone through early.
TEST_P(ThreadPoolTest, ABarrierOrdersWritesAndReads) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  std::vector<size_t> value(GetParam(), 1);
  std::vector<size_t> next(GetParam());
  constexpr size_t kRounds{50};
  pool->Run([&](size_t rank, Team& team) {
    for (size_t round = 0; round < kRounds; ++round) {
      next[rank] = value[rank] + value[(rank + 1) % team.size()];
      team.Barrier();
      value[rank] = next[rank];
      team.Barrier();
    }
  });
  for (const size_t v : value) EXPECT_EQ(v, size_t{1} << kRounds);
}

TEST_P(ThreadPoolTest, ASlowMemberIsWaitedFor) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  std::vector<int> done(GetParam());
  pool->Run([&](size_t rank, Team& team) {
    if (rank + 1 == team.size()) std::this_thread::sleep_for(milliseconds(5));  // others sleep too
    done[rank] = 1;
    team.Barrier();
    EXPECT_EQ(std::accumulate(done.begin(), done.end(), size_t{0}), team.size());
  });
}

// 1 + 2^-25 in the thread's rounding mode: 1 in round-to-nearest, more than 1 in round-up.
float OnePlusLittle() {
  volatile float one = 1.0f;
  volatile float little = 0x1p-25f;
  return one + little;
}

TEST_P(ThreadPoolTest, DenormalsAreZeroInsideAndTheCallersModeIsBackAfter) {
  const auto pool = ThreadPool::Create(GetParam()).value();
  volatile float smallest_normal = 0x1p-126f;
  std::vector<float> halves(GetParam(), 1.0f);
  std::vector<float> sums(GetParam());
  std::fesetround(FE_UPWARD);
  pool->Run([&](size_t rank, Team&) {
    halves[rank] = smallest_normal * 0.5f;
    sums[rank] = OnePlusLittle();
  });
  const float sum_after = OnePlusLittle();
  std::fesetround(FE_TONEAREST);
  EXPECT_GT(sum_after, 1.0f);
  EXPECT_GT(smallest_normal * 0.5f, 0.0f);
  for (const float half : halves) EXPECT_EQ(half, 0.0f);
  for (const float sum : sums) EXPECT_EQ(sum, 1.0f);
}

TEST(ThreadPool, IdleThreadsUseNoCpu) {
  const auto pool = ThreadPool::Create(4).value();
  pool->Run([](size_t, Team&) {});
  std::this_thread::sleep_for(milliseconds(20));  // past the spinning
  const auto cpu_us = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  const auto before = cpu_us();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LT(cpu_us() - before, 20'000);  // 10 % of one CPU; a spinning thread would use 200,000
}

TEST(ThreadPoolDeathTest, ARegionInsideARegionIsABug) {
  EXPECT_DEATH(
      {
        const auto pool = ThreadPool::Create(1).value();
        pool->Run([&](size_t, Team&) { pool->Run([](size_t, Team&) {}); });
      },
      "CHECK");
}

}  // namespace
}  // namespace sprat
