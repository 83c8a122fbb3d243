// A plain test program: cases that return what they saw, or throw a Failure.
#ifndef SPRAT_GPU_CASES_FOR_TEST_H_
#define SPRAT_GPU_CASES_FOR_TEST_H_

#include <string>
#include <utility>

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

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_CASES_FOR_TEST_H_
