#include "base/cpu_budget.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace sprat {
namespace {

// A directory that looks like /sys/fs/cgroup; removed afterwards.
class CgroupQuotaTest : public testing::Test {
 protected:
  CgroupQuotaTest()
      : mount_(std::filesystem::temp_directory_path() /
               ("cpu_budget_test." + std::to_string(getpid()))) {}
  ~CgroupQuotaTest() override { std::filesystem::remove_all(mount_); }

  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text;
  }

  std::filesystem::path mount_;
};

TEST_F(CgroupQuotaTest, NoFilesNoQuota) { EXPECT_FALSE(CgroupQuota("0::/a\n", mount_)); }

TEST_F(CgroupQuotaTest, V2IsRoundedUp) {
  Write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(CgroupQuota("0::/a\n", mount_), 2u);
}

TEST_F(CgroupQuotaTest, V2MaxIsNoQuota) {
  Write("a/cpu.max", "max 100000\n");
  EXPECT_FALSE(CgroupQuota("0::/a\n", mount_));
}

TEST_F(CgroupQuotaTest, TheSmallestOnThePathCounts) {
  Write("a/cpu.max", "100000 100000\n");
  Write("a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(CgroupQuota("0::/a/b\n", mount_), 1u);
}

// In a container the mount shows the process's own group as its root.
TEST_F(CgroupQuotaTest, TheRootCountsToo) {
  Write("cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupQuota("0::/not/visible/here\n", mount_), 3u);
}

TEST_F(CgroupQuotaTest, V1) {
  Write("cpu,cpuacct/docker/x/cpu.cfs_quota_us", "50000\n");
  Write("cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupQuota("9:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n", mount_), 1u);
}

TEST_F(CgroupQuotaTest, V1MinusOneIsNoQuota) {
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(CgroupQuota("4:cpu:/\n", mount_));
}

TEST_F(CgroupQuotaTest, NonsenseIsNoQuota) {
  Write("cpu.max", "many 100000\n");
  EXPECT_FALSE(CgroupQuota("no colons here\n0::/\n", mount_));
}

TEST(CpuBudget, FollowsTheAffinityMask) {
  size_t budget = 0;
  std::thread pinned([&budget] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    budget = CpuBudget();
  });
  pinned.join();
  EXPECT_EQ(budget, 1u);
}

}  // namespace
}  // namespace sprat
