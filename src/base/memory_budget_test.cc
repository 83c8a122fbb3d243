#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/cgroups.h"

namespace sprat {
namespace {

constexpr char kMemInfo[] =
    "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:     600 kB\n"
    "SwapTotal:         50 kB\nSwapFree:          20 kB\nHugePages_Total:       0\n";
constexpr uint64_t kKb{1024};

class Mount {
 public:
  Mount() {
    std::string name = testing::TempDir() + "memory_budget_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Mount() { std::filesystem::remove_all(path_); }
  void Write(const std::filesystem::path& file, const std::string& content) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << content;
  }
  MemoryBudget Budget(const char* cgroup_text) const {
    return MemoryBudgetOf(kMemInfo, cgroup_text, path_);
  }

 private:
  std::filesystem::path path_;
};

TEST(MemoryBudget, WithoutCgroupsItIsTheMachines) {
  const MemoryBudget budget = Mount().Budget("");
  EXPECT_EQ(budget.available_bytes, 620 * kKb);  // 600 and 20 of swap
  EXPECT_EQ(budget.total_bytes, 1050 * kKb);
}

TEST(MemoryBudget, WhereNothingIsSaidThereIsNoBound) {
  const MemoryBudget budget = MemoryBudgetOf("", "", "/nowhere");
  EXPECT_EQ(budget.available_bytes, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(budget.total_bytes, std::numeric_limits<uint64_t>::max());
}

TEST(MemoryBudget, TheTightestGroupOfV2Bounds) {
  const Mount mount;
  mount.Write("a/memory.max", "409600\n");  // 400 kB, of which 300 - 40 - 10 are taken
  mount.Write("a/memory.current", "307200\n");
  mount.Write("a/memory.stat", "anon 1\ninactive_file 40960\nactive_file 10240\n");
  mount.Write("a/b/memory.max", "max\n");
  mount.Write("a/b/memory.current", "307200\n");
  const MemoryBudget budget = mount.Budget("0::/a/b\n");
  EXPECT_EQ(budget.available_bytes, (400 - 250 + 20) * kKb);
  EXPECT_EQ(budget.total_bytes, 450 * kKb);
}

TEST(MemoryBudget, SwapOfAGroupIsBoundedByItsOwnLimit) {
  const Mount mount;
  mount.Write("a/memory.max", "409600\n");
  mount.Write("a/memory.current", "102400\n");
  mount.Write("a/memory.swap.max", "10240\n");  // 10 kB, 4 of them taken
  mount.Write("a/memory.swap.current", "4096\n");
  const MemoryBudget budget = mount.Budget("0::/a\n");
  EXPECT_EQ(budget.available_bytes, (400 - 100 + 6) * kKb);
  EXPECT_EQ(budget.total_bytes, 410 * kKb);
}

TEST(MemoryBudget, AGroupMayLimitSwapAlone) {
  const Mount mount;
  mount.Write("a/memory.max", "409600\n");
  mount.Write("a/memory.current", "102400\n");
  mount.Write("a/b/memory.max", "max\n");
  mount.Write("a/b/memory.swap.max", "0\n");
  const MemoryBudget budget = mount.Budget("0::/a/b\n");
  EXPECT_EQ(budget.available_bytes, (400 - 100) * kKb);
  EXPECT_EQ(budget.total_bytes, 400 * kKb);
}

TEST(MemoryBudget, AGroupThatIsFullLeavesNothing) {
  const Mount mount;
  mount.Write("memory.max", "4096\n");
  mount.Write("memory.current", "8192\n");
  mount.Write("memory.swap.max", "0\n");
  EXPECT_EQ(mount.Budget("0::/\n").available_bytes, 0u);
}

TEST(MemoryBudget, GroupsOfV1Bound) {
  const Mount mount;
  mount.Write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  mount.Write("memory/memory.usage_in_bytes", "409600\n");
  mount.Write("memory/x/memory.limit_in_bytes", "204800\n");
  mount.Write("memory/x/memory.usage_in_bytes", "102400\n");
  mount.Write("memory/x/memory.stat", "cache 5\ntotal_inactive_file 20480\n");
  const MemoryBudget budget = mount.Budget("5:cpu:/x\n4:memory:/x\n");
  EXPECT_EQ(budget.available_bytes, (200 - 80 + 20) * kKb);
  EXPECT_EQ(budget.total_bytes, 250 * kKb);
}

TEST(SystemText, WhatCannotBeReadHasNoText) {
  EXPECT_EQ(SystemText(std::filesystem::temp_directory_path()), "");  // opens, and fails to read
  EXPECT_EQ(SystemText("/nowhere"), "");
}

TEST(MemoryBudget, OfThisProcessIsPlausible) {
  const MemoryBudget budget = ReadMemoryBudget();
  EXPECT_GT(budget.available_bytes, uint64_t{1} << 20);
  EXPECT_LE(budget.available_bytes, budget.total_bytes);
  EXPECT_LT(budget.total_bytes, uint64_t{1} << 60);
}

}  // namespace
}  // namespace sprat
