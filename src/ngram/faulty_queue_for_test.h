// A read queue that fails on purpose.
#ifndef SPRAT_NGRAM_FAULTY_QUEUE_FOR_TEST_H_
#define SPRAT_NGRAM_FAULTY_QUEUE_FOR_TEST_H_

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ngram/read_queue.h"

namespace sprat {

// What the queues of one reader do wrong. Shared by the queue, which may be made anew, and the
// test.
struct Faults {
  // The result of a read in place of the true one `result`, of the n-th read since the start.
  std::function<int32_t(const ReadRequest& request, size_t n, int32_t result)> alter;
  size_t capacity = 64;  // reads that fit; Push says full above it
  bool breaks = false;   // Reap fails
  size_t reads = 0;      // so far
  std::mutex mutex;
};

// Reads with pread when reaped, the last pushed first.
class FaultyQueue final : public ReadQueue {
 public:
  explicit FaultyQueue(std::shared_ptr<Faults> faults) : faults_(std::move(faults)) {}

  bool Push(const ReadRequest& request, size_t tag) override {
    std::lock_guard lock(faults_->mutex);
    if (pushed_.size() >= faults_->capacity) return false;
    pushed_.emplace_back(request, tag);
    return true;
  }

  Result<void> Reap(std::vector<ReadCompletion>& completions) override {
    std::lock_guard lock(faults_->mutex);
    if (faults_->breaks) {
      pushed_.clear();
      return Error(ErrorCode::kIo, "the queue broke");
    }
    const auto [request, tag] = pushed_.back();
    pushed_.pop_back();
    const ssize_t got = pread(request.fd, request.destination, request.size_bytes,
                              static_cast<off_t>(request.offset));
    auto result = static_cast<int32_t>(got < 0 ? -errno : got);
    if (faults_->alter) result = faults_->alter(request, faults_->reads, result);
    ++faults_->reads;
    completions.push_back({tag, result});
    return {};
  }

  std::string_view name() const override { return "faulty"; }

 private:
  std::shared_ptr<Faults> faults_;
  std::vector<std::pair<ReadRequest, size_t>> pushed_;
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_FAULTY_QUEUE_FOR_TEST_H_
