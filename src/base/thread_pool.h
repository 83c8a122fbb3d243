// Threads that run one function together.
#ifndef SPRAT_BASE_THREAD_POOL_H_
#define SPRAT_BASE_THREAD_POOL_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "sprat/result.h"

namespace sprat {

// The threads that run one region, and where each meets the others. A team of one costs nothing.
class Team {
 public:
  // `spin`: how long a thread waits awake before it sleeps.
  explicit Team(size_t size, std::chrono::microseconds spin = {}) : size_(size), spin_(spin) {}

  size_t size() const { return size_; }

  // Returns when all `size()` threads have called it as often as the caller has; what they wrote
  // before is visible after. Spins for a bounded time, then sleeps.
  void Barrier();

 private:
  size_t size_;
  std::chrono::microseconds spin_;
  std::atomic<uint32_t> arrived_{0};
  std::atomic<uint32_t> phase_{0};
};

// [begin, end) of `items` for member `rank` of a team of `size`: contiguous, in order, equal to
// one.
struct Share {
  size_t begin;
  size_t end;
};
constexpr Share ShareOf(size_t items, size_t rank, size_t size) {
  return {items * rank / size, items * (rank + 1) / size};
}

// `size` threads: the caller of Run and size - 1 workers, which exist as long as the pool. A worker
// waits awake for at most 50 us after a region and then sleeps, so that an idle pool uses no CPU;
// with more threads than CPUs nobody spins, since that would keep the awaited thread from running.
// Threads: one Run at a time (a CHECK says so); not from within a region.
class ThreadPool {
 public:
  // size >= 1. Fails with kOutOfMemory if the system refuses a thread.
  static Result<std::unique_ptr<ThreadPool>> Create(size_t size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t size() const { return team_.size(); }

  // Calls f(rank, team) on every thread at once, rank = 0 on the caller, and returns when all have
  // returned. All compute in the mode of ScopedFlushToZero. `f` must not throw.
  template <typename F>
  void Run(const F& f) {
    RunRegion({&f, [](const void* function, size_t rank, Team& team) {
                 (*static_cast<const F*>(function))(rank, team);
               }});
  }

 private:
  struct Region {
    const void* function = nullptr;
    void (*call)(const void* function, size_t rank, Team& team) = nullptr;
  };

  ThreadPool(size_t size, std::chrono::microseconds spin);
  void RunRegion(Region region);
  void Work(size_t rank);

  std::chrono::microseconds spin_;
  Team team_;
  Region region_;                        // written before generation_ is raised, read after
  std::atomic<uint32_t> generation_{0};  // regions begun
  std::atomic<bool> stop_{false};        // written before generation_ is raised, read after
  std::atomic<bool> running_{false};
  std::vector<std::thread> workers_;
};

}  // namespace sprat

#endif  // SPRAT_BASE_THREAD_POOL_H_
