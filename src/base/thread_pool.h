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

#include "base/work_steps.h"
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

// `size` threads: the caller of a region and size - 1 workers, which exist as long as the pool. A
// worker waits awake for at most 50 us after a region, lending its core to whoever wants it, and
// then sleeps, so that an idle pool uses no CPU; with more threads than CPUs nobody spins, since
// that would keep the awaited thread from running.
// Threads: one region at a time (a CHECK says so); not from within a region.
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
    RunRegion({.function = &f, .call = [](const void* function, size_t rank, ThreadPool& pool) {
                 (*static_cast<const F*>(function))(rank, pool.team_);
                 pool.team_.Barrier();
               }});
  }

  // Calls f(member) on the calling thread, member.rank() = 0, and on every worker that comes before
  // the call has returned; returns when those have returned too. What `f` has to do is in the steps
  // of `member`, which need nobody in particular: a worker that sleeps or is kept from running
  // costs its help and no waiting. The mode and the exceptions are those of Run.
  template <typename F>
  void RunSteps(const F& f) {
    steps_.Restart();
    RunRegion({.function = &f, .call = [](const void* function, size_t rank, ThreadPool& pool) {
                 Member member(pool.steps_, rank);
                 (*static_cast<const F*>(function))(member);
               }});
  }

 private:
  struct Region {
    const void* function = nullptr;
    void (*call)(const void* function, size_t rank, ThreadPool& pool) = nullptr;
  };

  ThreadPool(size_t size, std::chrono::microseconds spin);
  void RunRegion(Region region);
  bool Enter(uint32_t& seen);
  void Leave();
  void CloseDoor();
  void Work(size_t rank);

  std::chrono::microseconds spin_;
  Team team_;
  WorkSteps steps_;
  Region region_;  // written before the door is opened, read behind it
  // The number of the region in the upper half; below, whether a worker may still enter and how
  // many are inside.
  std::atomic<uint64_t> door_{0};
  std::atomic<uint32_t> generation_{0};  // regions begun
  std::atomic<bool> stop_{false};        // written before generation_ is raised, read after
  std::atomic<bool> running_{false};
  std::vector<std::thread> workers_;
};

}  // namespace sprat

#endif  // SPRAT_BASE_THREAD_POOL_H_
