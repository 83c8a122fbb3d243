#include "base/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/cpu_budget.h"
#include "base/float_mode.h"
#include "base/spin_wait.h"

namespace sprat {
namespace {

// For a region to begin. Waking a sleeping thread costs 5 to 90 us.
constexpr std::chrono::microseconds kIdleSpin{50};
// For the end of a step. Who has to wait longer is probably in the way of the thread he waits for,
// on the same core; asleep, he makes room, and is woken on another.
constexpr std::chrono::microseconds kStepSpin{20};

constexpr uint64_t kOpen{uint64_t{1} << 31};
constexpr uint64_t kInside{kOpen - 1};  // the bits that count

uint32_t RegionOf(uint64_t door) { return static_cast<uint32_t>(door >> 32); }

}  // namespace

void Team::Barrier() {
  if (size_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    Raise(phase_);
    return;
  }
  WaitWhile(phase_, phase, spin_, Spin::kKeep);
}

ThreadPool::ThreadPool(size_t size, std::chrono::microseconds spin)
    : spin_(spin),
      team_(size, std::min(spin, kStepSpin)),
      steps_(size, std::min(spin, kStepSpin)) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(size_t size) {
  CHECK(size >= 1);
  const auto spin = size <= CpuBudget() ? kIdleSpin : std::chrono::microseconds{0};
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
    const uint64_t number = generation_.load(std::memory_order_relaxed) + 1;
    door_.store(number << 32 | kOpen, std::memory_order_release);
    Raise(generation_);
  }
  {
    const ScopedFlushToZero flush;
    region.call(region.function, 0, *this);
  }
  if (!workers_.empty()) CloseDoor();
  running_.store(false, std::memory_order_release);
}

// Lets no worker in any more and returns when none is inside.
void ThreadPool::CloseDoor() {
  uint64_t door = door_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  const auto end = std::chrono::steady_clock::now() + kStepSpin;
  while ((door & kInside) != 0) {
    if (std::chrono::steady_clock::now() > end) door_.wait(door, std::memory_order_acquire);
    door = door_.load(std::memory_order_acquire);
  }
}

// Takes part in the region that has the door open, unless it is the one that was seen last.
bool ThreadPool::Enter(uint32_t& seen) {
  uint64_t door = door_.load(std::memory_order_relaxed);
  do {
    if (RegionOf(door) == seen || (door & kOpen) == 0) {
      seen = RegionOf(door);
      return false;
    }
  } while (!door_.compare_exchange_weak(door, door + 1, std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
  seen = RegionOf(door);
  return true;
}

// Sequentially consistent for the reason that Raise has (spin_wait.cc).
void ThreadPool::Leave() {
  if ((door_.fetch_sub(1, std::memory_order_seq_cst) & (kOpen | kInside)) == 1) door_.notify_all();
}

void ThreadPool::Work(size_t rank) {
  const ScopedFlushToZero flush;
  for (uint32_t seen = 0;;) {
    WaitWhile(generation_, seen, spin_, Spin::kLend);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!Enter(seen)) continue;
    region_.call(region_.function, rank, *this);
    Leave();
  }
}

}  // namespace sprat
