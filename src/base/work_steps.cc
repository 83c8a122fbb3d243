#include "base/work_steps.h"

#include <algorithm>

namespace sprat {

WorkSteps::WorkSteps(size_t size, std::chrono::microseconds spin)
    : size_(size), spin_(spin), given_(size == 1 ? nullptr : new Given[size]) {}

void WorkSteps::Restart() {
  if (size_ == 1) return;
  for (size_t rank = 0; rank < size_; ++rank) {
    given_[rank].items.store(0, std::memory_order_relaxed);
  }
  step_.store(0, std::memory_order_relaxed);
}

// The next items of a member's share, or none: half of what is left for the member itself, so that
// few runs are long and the last ones are short, a quarter for another, who wants to leave it most.
//
// A thread that is late for the end of `step` takes nothing: a step ends when every share that has
// items is given away, which leaves this step's number, or a later one's, in each of them.
Share Member::Take(size_t whose, size_t items, uint32_t step) {
  const Share share = ShareOf(items, whose, steps_.size_);
  const uint64_t size = share.end - share.begin;
  std::atomic<uint64_t>& given = steps_.given_[whose].items;
  uint64_t before = given.load(std::memory_order_relaxed);
  while (size > 0) {
    const auto of = static_cast<uint32_t>(before >> 32);
    if (of > step) break;
    const uint64_t first = of == step ? before & 0xffff'ffff : 0;
    if (first == size) break;
    const uint64_t count = std::max<uint64_t>(1, (size - first) / (whose == rank_ ? 2 : 4));
    const uint64_t after = uint64_t{step} << 32 | (first + count);
    if (given.compare_exchange_weak(before, after, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      return {share.begin + first, share.begin + first + count};
    }
  }
  return {0, 0};
}

// Counts items as done; true if they were the last ones of the step.
bool Member::AddDone(size_t count, size_t items) {
  if (count == 0) return false;
  const size_t before =
      steps_.done_.fetch_add(static_cast<uint32_t>(count), std::memory_order_acq_rel);
  if (before + count < items) return false;
  steps_.done_.store(0, std::memory_order_relaxed);
  Raise(steps_.step_);
  return true;
}

}  // namespace sprat
