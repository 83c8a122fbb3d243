#include "base/thread_pool.h"

#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/cpu_budget.h"
#include "base/float_mode.h"

namespace sprat {
namespace {

constexpr std::chrono::microseconds kSpin{50};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns when `value` is no longer `old`: awake for `spin`, asleep after.
void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds spin) {
  if (value.load(std::memory_order_acquire) != old) return;
  if (spin.count() > 0) {
    const auto end = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        Pause();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  value.wait(old, std::memory_order_acquire);
}

// Lets everyone in WaitWhile go on. Sequentially consistent: notify_all wakes nobody if it sees no
// one asleep, so that look must not be taken before others can see the new value (a plain release
// store allows it, and a thread that falls asleep in between sleeps for ever).
void Raise(std::atomic<uint32_t>& value) {
  value.fetch_add(1, std::memory_order_seq_cst);
  value.notify_all();
}

}  // namespace

void Team::Barrier() {
  if (size_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    Raise(phase_);
    return;
  }
  WaitWhile(phase_, phase, spin_);
}

ThreadPool::ThreadPool(size_t size, std::chrono::microseconds spin)
    : spin_(spin), team_(size, spin) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(size_t size) {
  CHECK(size >= 1);
  const auto spin = size <= CpuBudget() ? kSpin : std::chrono::microseconds{0};
  std::unique_ptr<ThreadPool> pool(new ThreadPool(size, spin));
  try {
    for (size_t rank = 1; rank < size; ++rank) {
      pool->workers_.emplace_back([p = pool.get(), rank] { p->Work(rank); });
    }
  } catch (const std::system_error& refused) {
    return Error(ErrorCode::kOutOfMemory,
                 "cannot start " + std::to_string(size) + " threads: " + refused.what());
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  Raise(generation_);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunRegion(Region region) {
  CHECK(!running_.exchange(true, std::memory_order_acquire));
  if (!workers_.empty()) {
    region_ = region;
    Raise(generation_);
  }
  {
    const ScopedFlushToZero flush;
    region.call(region.function, 0, team_);
  }
  team_.Barrier();
  running_.store(false, std::memory_order_release);
}

void ThreadPool::Work(size_t rank) {
  const ScopedFlushToZero flush;
  for (uint32_t seen = 0;; ++seen) {
    WaitWhile(generation_, seen, spin_);
    if (stop_.load(std::memory_order_relaxed)) return;
    region_.call(region_.function, rank, team_);
    team_.Barrier();
  }
}

}  // namespace sprat
