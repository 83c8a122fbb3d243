#include "ngram/count_allocations_for_test.h"

#include <cstdlib>
#include <new>

namespace {
thread_local size_t allocations = 0;
}  // namespace

void* operator new(size_t size_bytes) {
  ++allocations;
  void* memory = std::malloc(size_bytes == 0 ? 1 : size_bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
// simdjson allocates by this one; it must come from the same place as what `delete` gives back.
void* operator new(size_t size_bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size_bytes == 0 ? 1 : size_bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sprat {

size_t AllocationsOfThisThread() { return allocations; }

}  // namespace sprat
