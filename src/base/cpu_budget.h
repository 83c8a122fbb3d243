// How many CPUs this process may use.
#ifndef SPRAT_BASE_CPU_BUDGET_H_
#define SPRAT_BASE_CPU_BUDGET_H_

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace sprat {

// min(CPUs of the scheduler's affinity mask, cgroup quota rounded up), at least 1.
size_t CpuBudget();

// The smallest CPU quota on the path from this process's cgroup to the root, rounded up to whole
// CPUs; nullopt if there is none. Reads cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us over
// cpu.cfs_period_us).
//   cgroup_text: the content of /proc/self/cgroup.
//   mount: where cgroups are mounted, /sys/fs/cgroup. In a container the mount's root is often the
//     process's own cgroup, so the root itself is read too.
// Source: Linux, Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
std::optional<size_t> CgroupQuota(std::string_view cgroup_text, const std::filesystem::path& mount);

}  // namespace sprat

#endif  // SPRAT_BASE_CPU_BUDGET_H_
