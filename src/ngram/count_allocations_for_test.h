// Counts what a thread takes from the heap.
#ifndef SPRAT_NGRAM_COUNT_ALLOCATIONS_FOR_TEST_H_
#define SPRAT_NGRAM_COUNT_ALLOCATIONS_FOR_TEST_H_

#include <cstddef>

namespace sprat {

// Calls of operator new by this thread since it began. Replaces the operators of whole programs
// that link it.
size_t AllocationsOfThisThread();

}  // namespace sprat

#endif  // SPRAT_NGRAM_COUNT_ALLOCATIONS_FOR_TEST_H_
