#include "ngram/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace sprat {
namespace {

struct Runnable {
  std::array<const NgramKernels*, 4> tables{};
  size_t count = 0;
};

#if defined(__x86_64__)

const NgramKernels& Avx512Bf16() {
  static const NgramKernels table{.name = "avx512_bf16",
                                  .hash = kNgramAvx512.hash,
                                  .decode_e4m3 = kNgramAvx512.decode_e4m3,
                                  .project = ProjectAvx512Bf16};
  return table;
}

// Not a name that __builtin_cpu_supports of every compiler knows. The system saves what AVX2 saves.
bool SupportsF16c() {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// __builtin_cpu_supports asks CPUID, and XGETBV whether the system saves the registers.
void Probe(Runnable& found) {
  const auto add = [&](const NgramKernels& table) { found.tables[found.count++] = &table; };
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && SupportsF16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  // vdpbf16ps does twice the work of an f32 FMA on Zen 4 and 5 and half of it on Sapphire Rapids,
  // so the CPUID bit alone does not make it the better one.
  const bool fast_bf16 = bf16 && __builtin_cpu_is("amd");
  if (fast_bf16) add(Avx512Bf16());
  if (avx512) add(kNgramAvx512);
  if (bf16 && !fast_bf16) add(Avx512Bf16());
  if (avx2) add(kNgramAvx2);
}

#else

void Probe(Runnable&) {}

#endif

}  // namespace

std::span<const NgramKernels* const> RunnableNgramKernels() {
  static const Runnable runnable = [] {
    Runnable found;
    Probe(found);
    found.tables[found.count++] = &ScalarNgramKernels();
    return found;
  }();
  return {runnable.tables.data(), runnable.count};
}

Result<const NgramKernels*> FindNgramKernels(std::string_view name) {
  const std::span<const NgramKernels* const> runnable = RunnableNgramKernels();
  if (name.empty()) return runnable.front();
  std::string names;
  for (const NgramKernels* table : runnable) {
    if (name == table->name) return table;
    names += names.empty() ? "" : ", ";
    names += table->name;
  }
  return Error(ErrorCode::kInvalidArgument, "no n-gram kernel table '" + std::string(name) +
                                                "' on this machine, expected one of " + names);
}

Result<const NgramKernels*> ActiveNgramKernels() {
  const char* forced = std::getenv("SPRAT_FORCE_ISA");
  Result<const NgramKernels*> found = FindNgramKernels(forced == nullptr ? "" : forced);
  if (!found.ok()) return std::move(found.error()).In("SPRAT_FORCE_ISA");
  return found;
}

}  // namespace sprat
