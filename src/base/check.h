// CHECK(condition): what only a bug can break. Says where and aborts, in every build.
#ifndef SPRAT_BASE_CHECK_H_
#define SPRAT_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace sprat {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace sprat

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::sprat::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // SPRAT_BASE_CHECK_H_
