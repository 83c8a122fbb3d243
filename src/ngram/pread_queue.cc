// Reads by threads that call pread.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ngram/read_queue.h"

namespace sprat {
namespace {

constexpr size_t kMostThreads{32};

class PreadQueue final : public ReadQueue {
 public:
  explicit PreadQueue(size_t depth) : depth_(depth) {}

  ~PreadQueue() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Result<void> Start() {
    const size_t count = std::clamp<size_t>(depth_, 1, kMostThreads);
    try {
      while (threads_.size() < count) threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error& refused) {
      return Error(ErrorCode::kOutOfMemory,
                   std::string("cannot start a thread that reads: ") + refused.what());
    }
    return {};
  }

  bool Push(const ReadRequest& request, size_t tag) override {
    {
      std::lock_guard lock(mutex_);
      if (in_flight_ == depth_) return false;
      ++in_flight_;
      requests_.emplace_back(request, tag);
    }
    work_.notify_one();
    return true;
  }

  Result<void> Reap(std::vector<ReadCompletion>& completions) override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return !completions_.empty(); });
    completions.insert(completions.end(), completions_.begin(), completions_.end());
    in_flight_ -= completions_.size();
    completions_.clear();
    return {};
  }

  std::string_view name() const override { return "pread"; }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return stop_ || !requests_.empty(); });
      if (requests_.empty()) return;
      const auto [request, tag] = requests_.front();
      requests_.pop_front();
      lock.unlock();
      const ssize_t result = pread(request.fd, request.destination, request.size_bytes,
                                   static_cast<off_t>(request.offset));
      const int error_number = errno;
      lock.lock();
      completions_.push_back({tag, static_cast<int32_t>(result < 0 ? -error_number : result)});
      ended_.notify_one();
    }
  }

  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable work_;   // requests_ or stop_ changed
  std::condition_variable ended_;  // completions_ grew
  bool stop_ = false;              // with mutex_, as all below
  size_t in_flight_ = 0;           // pushed and not reaped
  std::deque<std::pair<ReadRequest, size_t>> requests_;
  std::vector<ReadCompletion> completions_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> OpenPreadQueue(size_t depth) {
  auto queue = std::make_unique<PreadQueue>(depth);
  Result<void> started = queue->Start();
  if (!started.ok()) return std::move(started.error());
  return std::unique_ptr<ReadQueue>(std::move(queue));
}

Result<std::unique_ptr<ReadQueue>> OpenReadQueue(size_t depth, bool io_uring) {
  if (io_uring) {
    Result<std::unique_ptr<ReadQueue>> ring = OpenRingQueue(depth);
    if (ring.ok()) return ring;
  }
  return OpenPreadQueue(depth);
}

}  // namespace sprat
