#include "base/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/cgroups.h"

namespace sprat {
namespace {

// "max 100000" or "150000 100000" (quota and period in microseconds) -> CPUs, rounded up.
std::optional<size_t> ParseQuota(std::istream& text) {
  long long quota_us = 0;
  long long period_us = 0;
  if (!(text >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return std::nullopt;
  return static_cast<size_t>((quota_us + period_us - 1) / period_us);
}

std::optional<size_t> QuotaOfV2(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  return ParseQuota(file);
}

std::optional<size_t> QuotaOfV1(const std::filesystem::path& group) {
  std::ifstream quota(group / "cpu.cfs_quota_us");
  std::ifstream period(group / "cpu.cfs_period_us");
  std::stringstream both;
  both << quota.rdbuf() << ' ' << period.rdbuf();
  return ParseQuota(both);
}

std::optional<size_t> Smaller(std::optional<size_t> a, std::optional<size_t> b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

size_t AffinityCount() {
  // The kernel's mask may be larger than cpu_set_t on machines with more than 1024 CPUs.
  for (size_t cpus = 1024; cpus <= 1024 * 1024; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) return 1;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int failed = sched_getaffinity(0, bytes, set);
    const int reason = errno;
    const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return static_cast<size_t>(count);
    if (reason != EINVAL) return 1;
  }
  return 1;
}

}  // namespace

std::optional<size_t> CgroupQuota(std::string_view cgroup_text,
                                  const std::filesystem::path& mount) {
  const Cgroups groups = CgroupsOf(cgroup_text, mount, "cpu");
  std::optional<size_t> smallest;
  for (const std::filesystem::path& group : groups.v2)
    smallest = Smaller(smallest, QuotaOfV2(group));
  for (const std::filesystem::path& group : groups.v1)
    smallest = Smaller(smallest, QuotaOfV1(group));
  return smallest;
}

size_t CpuBudget() {
  const size_t affinity = AffinityCount();
  return std::max<size_t>(
      1, std::min(affinity, CgroupQuota(OwnCgroupText(), "/sys/fs/cgroup").value_or(affinity)));
}

}  // namespace sprat
