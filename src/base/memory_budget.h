// How much memory this process may take.
#ifndef SPRAT_BASE_MEMORY_BUDGET_H_
#define SPRAT_BASE_MEMORY_BUDGET_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>

namespace sprat {

struct MemoryBudget {
  // May be taken at this moment before the system must end a process: MemAvailable and free swap,
  // or what the limit of a cgroup leaves, its page cache not counted.
  uint64_t available_bytes = std::numeric_limits<uint64_t>::max();
  // Could be taken if nobody else took any: memory and swap, or the limit of a cgroup.
  uint64_t total_bytes = std::numeric_limits<uint64_t>::max();
};

// Of this process, now. Where the system does not say, there is no bound.
MemoryBudget ReadMemoryBudget();

// The same from the content of /proc/meminfo and of /proc/self/cgroup, and where cgroups are
// mounted (cgroups.h). Reads cgroup v2 (memory.max, .current, .stat, .swap.max, .swap.current) and
// v1 (memory.limit_in_bytes, .usage_in_bytes, .stat). Source: Linux,
// Documentation/filesystems/proc.rst and admin-guide/cgroup-v2.rst.
MemoryBudget MemoryBudgetOf(std::string_view meminfo, std::string_view cgroup_text,
                            const std::filesystem::path& mount);

}  // namespace sprat

#endif  // SPRAT_BASE_MEMORY_BUDGET_H_
