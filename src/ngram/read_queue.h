// Many reads of open files in flight at once.
#ifndef SPRAT_NGRAM_READ_QUEUE_H_
#define SPRAT_NGRAM_READ_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat {

// One read: `size_bytes` from `offset` of the open file `fd` into `destination`.
struct ReadRequest {
  int fd = -1;
  uint64_t offset = 0;
  uint32_t size_bytes = 0;
  std::byte* destination = nullptr;
};

// How it ended: the bytes read, fewer at the end of a file or for any reason of the kernel's, or a
// negative errno.
struct ReadCompletion {
  size_t tag = 0;
  int32_t result = 0;
};

// Reads that run at the same time. An interface because three things stand behind it: io_uring,
// threads for where io_uring is refused (many containers), and the faults of tests.
// Threads: one at a time.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  // Queues a read, whose completion will carry `tag`; `destination` must stay until then. False if
  // the queue is full: Reap, then try again.
  virtual bool Push(const ReadRequest& request, size_t tag) = 0;

  // Starts what was pushed, waits until at least one read has ended, and appends every completion
  // there is. Requires a read in flight. Errors: kIo; then no read is in flight any more.
  virtual Result<void> Reap(std::vector<ReadCompletion>& completions) = 0;

  virtual std::string_view name() const = 0;
};

// Up to `depth` reads in the kernel's ring (io_uring, liburing 2.3).
// Errors: kIo with the system's reason, such as a sandbox that forbids it.
Result<std::unique_ptr<ReadQueue>> OpenRingQueue(size_t depth);

// Up to `depth` reads by as many threads, at most 32, that call pread. Errors: kOutOfMemory.
Result<std::unique_ptr<ReadQueue>> OpenPreadQueue(size_t depth);

// The ring if `io_uring` and the system allows it, else the threads. Errors: those of
// OpenPreadQueue.
Result<std::unique_ptr<ReadQueue>> OpenReadQueue(size_t depth, bool io_uring);

}  // namespace sprat

#endif  // SPRAT_NGRAM_READ_QUEUE_H_
