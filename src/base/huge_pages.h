// A hint about memory that is about to be filled.
#ifndef SPRAT_BASE_HUGE_PAGES_H_
#define SPRAT_BASE_HUGE_PAGES_H_

#include <cstddef>

namespace sprat {

// Asks the kernel to back the pages inside [start, start + size_bytes) with huge ones: filling 2 MB
// then takes one page fault instead of 512, which take longer than the filling. Does nothing for
// less than 2 MB. A refusal changes nothing. Any thread may call.
void AskForHugePages(void* start, size_t size_bytes);

}  // namespace sprat

#endif  // SPRAT_BASE_HUGE_PAGES_H_
