// Reads table rows from where they lie in the checkpoint's files.
#ifndef SPRAT_NGRAM_ROW_READER_H_
#define SPRAT_NGRAM_ROW_READER_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "ngram/read_queue.h"
#include "sprat/result.h"

namespace sprat {

// A row to read: row_bytes from `offset` of file number `file` into `destination`.
struct RowRead {
  uint32_t file = 0;
  uint64_t offset = 0;
  std::byte* destination = nullptr;
};

struct RowReaderOptions {
  size_t row_bytes = 0;
  size_t queue_depth = 64;  // reads in flight for one call of Read
  size_t lanes = 4;         // calls of Read that proceed at the same time; others wait
  bool io_uring = true;     // false, or refused by the system: threads that call pread
  // Makes the queue of a lane in place of these; for tests.
  std::function<Result<std::unique_ptr<ReadQueue>>(size_t depth)> open_queue = {};
};

// Reads rows past the page cache (O_DIRECT, which a file system may refuse: then through it) in
// aligned blocks of 4 KB, one or two for a row, and copies the row out.
// Threads: any may call Read at any time.
class RowReader {
 public:
  static constexpr size_t kBlockBytes{4096};

  // Opens `files`, and one queue to see that it works. Errors: kNotFound, kIo, kOutOfMemory.
  static Result<std::unique_ptr<RowReader>> Open(const std::vector<std::filesystem::path>& files,
                                                 const RowReaderOptions& options);
  ~RowReader();
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  // Reads every row. Returns when no read is in flight any more, whatever happened. A read that the
  // kernel cut short or asked to repeat (EAGAIN, EINTR) is repeated, at most 64 times.
  // Errors: kIo naming file and offset (the system's reason, or a file that ends too early), after
  // which destinations hold any bytes; the reader stays usable.
  Result<void> Read(std::span<const RowRead> rows);

  struct Counters {
    uint64_t reads = 0;
    uint64_t read_bytes = 0;
    uint64_t retries = 0;
    size_t queue_depth = 0;  // the most reads that were in flight in one call
  };
  Counters counters() const;

  // "io_uring" or "pread".
  std::string_view name() const { return name_; }

 private:
  class Pass;
  // What one call of Read works with.
  struct Lane {
    Buffer<std::byte> blocks;          // holds queue_depth pieces of blocks_bytes_
    std::byte* first_block = nullptr;  // the first of them, aligned to a block
    std::unique_ptr<ReadQueue> queue;  // last: it ends before the memory that it reads into
  };

  explicit RowReader(const RowReaderOptions& options);
  Result<void> OpenFiles(const std::vector<std::filesystem::path>& files);
  Result<Lane> OpenLane();
  Result<Lane> TakeLane();
  void PutLane(Lane lane);
  void DropLane();  // one that was opened, or was to be, is no more

  RowReaderOptions options_;
  size_t blocks_bytes_ = 0;  // the most that the blocks of one row take
  std::vector<std::filesystem::path> paths_;
  std::vector<int> files_;
  std::string name_;

  std::mutex mutex_;
  std::condition_variable lane_free_;
  std::vector<Lane> idle_;  // with mutex_
  size_t lanes_ = 0;        // opened; with mutex_

  std::atomic<uint64_t> reads_{0}, read_bytes_{0}, retries_{0};
  std::atomic<size_t> deepest_{0};
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_ROW_READER_H_
