#include "base/cpu_budget.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

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

// The smallest quota of mount/group and everything above it up to mount.
template <typename QuotaOf>
std::optional<size_t> SmallestUpwards(const std::filesystem::path& mount, std::string_view group,
                                      const QuotaOf& quota_of) {
  std::optional<size_t> smallest = quota_of(mount);
  std::filesystem::path at = mount;
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    at /= part;
    smallest = Smaller(smallest, quota_of(at));
  }
  return smallest;
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
  // A line is "id:controllers:path"; v2 is "0::path".
  std::optional<size_t> smallest;
  std::istringstream lines{std::string(cgroup_text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") smallest = Smaller(smallest, SmallestUpwards(mount, group, QuotaOfV2));
    if (controllers.find(",cpu,") == std::string::npos) continue;
    for (const char* name : {"cpu", "cpu,cpuacct"}) {
      smallest = Smaller(smallest, SmallestUpwards(mount / name, group, QuotaOfV1));
    }
  }
  return smallest;
}

size_t CpuBudget() {
  std::ifstream file("/proc/self/cgroup");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t affinity = AffinityCount();
  return std::max<size_t>(
      1, std::min(affinity, CgroupQuota(text, "/sys/fs/cgroup").value_or(affinity)));
}

}  // namespace sprat
