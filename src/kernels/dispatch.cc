#include "kernels/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdlib>
#include <string>

namespace sprat {
namespace {

struct Runnable {
  std::array<const Kernels*, 3> tables{};
  size_t count = 0;
};

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports has no name for it. Its registers are those of AVX.
bool HasF16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// __builtin_cpu_supports asks CPUID, and XGETBV whether the system saves the registers.
Runnable Probe() {
  Runnable found;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    found.tables[found.count++] = &kAvx512Kernels;
  }
  if (avx2) found.tables[found.count++] = &kAvx2Kernels;
#endif
  found.tables[found.count++] = &kScalarKernels;
  return found;
}

}  // namespace

std::span<const Kernels* const> RunnableKernels() {
  static const Runnable runnable = Probe();
  return {runnable.tables.data(), runnable.count};
}

Result<const Kernels*> FindKernels(std::string_view name) {
  const std::span<const Kernels* const> runnable = RunnableKernels();
  if (name.empty()) return runnable.front();
  std::string names;
  for (const Kernels* table : runnable) {
    if (name == table->name) return table;
    names += names.empty() ? "" : ", ";
    names += table->name;
  }
  return Error(ErrorCode::kInvalidArgument, "no kernel table '" + std::string(name) +
                                                "' on this machine, expected one of " + names);
}

Result<const Kernels*> ActiveKernels() {
  const char* forced = std::getenv("SPRAT_FORCE_ISA");
  Result<const Kernels*> found = FindKernels(forced == nullptr ? "" : forced);
  if (!found.ok()) return std::move(found.error()).In("SPRAT_FORCE_ISA");
  return found;
}

}  // namespace sprat
