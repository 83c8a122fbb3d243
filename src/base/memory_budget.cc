#include "base/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/cgroups.h"

namespace sprat {
namespace {

constexpr uint64_t kNoBound{std::numeric_limits<uint64_t>::max()};

struct Swap {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

// The number after `key` in lines of "key number" or "key: number kB".
std::optional<uint64_t> NumberOf(std::istream& lines, std::string_view key) {
  std::string name, rest;
  for (uint64_t number = 0; lines >> name >> number; std::getline(lines, rest)) {
    if (name == key) return number;
  }
  return std::nullopt;
}

std::optional<uint64_t> Kilobytes(std::string_view meminfo, std::string_view key) {
  std::istringstream lines{std::string(meminfo)};
  const std::optional<uint64_t> number = NumberOf(lines, key);
  return number ? std::optional(*number * 1024) : std::nullopt;
}

// The number that a file holds; nullopt for "max" and where there is no file.
std::optional<uint64_t> NumberIn(const std::filesystem::path& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

uint64_t StatOf(const std::filesystem::path& group, std::string_view key) {
  std::ifstream file(group / "memory.stat");
  return NumberOf(file, key).value_or(0);
}

uint64_t Minus(uint64_t a, uint64_t b) { return a - std::min(a, b); }

void Bound(uint64_t limit_bytes, uint64_t used_bytes, uint64_t cache_bytes, Swap swap,
           MemoryBudget& budget) {
  const uint64_t left = Minus(limit_bytes, Minus(used_bytes, cache_bytes));
  if (limit_bytes > kNoBound - swap.total_bytes) return;
  budget.available_bytes = std::min(budget.available_bytes, left + swap.free_bytes);
  budget.total_bytes = std::min(budget.total_bytes, limit_bytes + swap.total_bytes);
}

// A group without a limit of memory may have one of swap.
void BoundSwapByV2(const std::filesystem::path& group, Swap& swap) {
  if (const std::optional<uint64_t> most = NumberIn(group / "memory.swap.max")) {
    const uint64_t used = NumberIn(group / "memory.swap.current").value_or(0);
    swap.free_bytes = std::min(swap.free_bytes, Minus(*most, used));
    swap.total_bytes = std::min(swap.total_bytes, *most);
  }
}

void BoundByV2(const std::filesystem::path& group, Swap swap, MemoryBudget& budget) {
  const std::optional<uint64_t> limit = NumberIn(group / "memory.max");
  if (!limit) return;
  Bound(*limit, NumberIn(group / "memory.current").value_or(0),
        StatOf(group, "inactive_file") + StatOf(group, "active_file"), swap, budget);
}

void BoundByV1(const std::filesystem::path& group, Swap swap, MemoryBudget& budget) {
  const std::optional<uint64_t> limit = NumberIn(group / "memory.limit_in_bytes");
  if (!limit) return;
  Bound(*limit, NumberIn(group / "memory.usage_in_bytes").value_or(0),
        StatOf(group, "total_inactive_file") + StatOf(group, "total_active_file"), swap, budget);
}

}  // namespace

MemoryBudget MemoryBudgetOf(std::string_view meminfo, std::string_view cgroup_text,
                            const std::filesystem::path& mount) {
  Swap swap{.free_bytes = Kilobytes(meminfo, "SwapFree:").value_or(0),
            .total_bytes = Kilobytes(meminfo, "SwapTotal:").value_or(0)};
  const Cgroups groups = CgroupsOf(cgroup_text, mount, "memory");
  for (const std::filesystem::path& group : groups.v2) BoundSwapByV2(group, swap);
  MemoryBudget budget;
  if (const std::optional<uint64_t> available = Kilobytes(meminfo, "MemAvailable:")) {
    budget.available_bytes = *available + swap.free_bytes;
  }
  if (const std::optional<uint64_t> total = Kilobytes(meminfo, "MemTotal:")) {
    budget.total_bytes = *total + swap.total_bytes;
  }
  for (const std::filesystem::path& group : groups.v2) BoundByV2(group, swap, budget);
  for (const std::filesystem::path& group : groups.v1) BoundByV1(group, swap, budget);
  return budget;
}

MemoryBudget ReadMemoryBudget() {
  return MemoryBudgetOf(SystemText("/proc/meminfo"), OwnCgroupText(), "/sys/fs/cgroup");
}

}  // namespace sprat
