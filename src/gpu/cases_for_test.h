// A plain test program: cases that return what they saw, or throw a Failure.
#ifndef SPRAT_GPU_CASES_FOR_TEST_H_
#define SPRAT_GPU_CASES_FOR_TEST_H_

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sprat/result.h"

namespace sprat::gpu {

struct Failure {
  std::string why;
};
inline void Expect(bool condition, const std::string& why) {
  if (!condition) throw Failure{why};
}
template <typename T>
T Value(Result<T> result) {
  if (!result.ok()) throw Failure{result.error().message()};
  return std::move(result).value();
}
inline void Done(const Result<void>& result) {
  if (!result.ok()) throw Failure{result.error().message()};
}

// A name, and what returns what it saw.
using Case = std::pair<std::string, std::function<std::string()>>;

// Runs all, a line each; the exit status of the program.
inline int RunAll(const std::vector<Case>& cases) {
  using Clock = std::chrono::steady_clock;
  int failed = 0;
  for (const auto& [name, run] : cases) {
    const Clock::time_point start = Clock::now();
    std::string line;
    bool ok = true;
    try {
      line = run();
    } catch (const Failure& failure) {
      ok = false;
      line = failure.why;
    }
    failed += !ok;
    fmt::print("{} {}: {} ({:.1f} s)\n", ok ? "ok    " : "FAILED", name, line,
               std::chrono::duration<double>(Clock::now() - start).count());
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_CASES_FOR_TEST_H_
