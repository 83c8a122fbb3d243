// Steps of work that several threads do together, whoever of them is there.
#ifndef SPRAT_BASE_WORK_STEPS_H_
#define SPRAT_BASE_WORK_STEPS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/spin_wait.h"

namespace sprat {

// [begin, end) of `items` for member `rank` of a team of `size`: contiguous, in order, equal to
// one.
struct Share {
  size_t begin;
  size_t end;
};
constexpr Share ShareOf(size_t items, size_t rank, size_t size) {
  return {items * rank / size, items * (rank + 1) / size};
}

// The state of a sequence of steps. A step is a number of items; each member has a share of them
// and takes from another's when its own is done, so that a member that comes late, is slow, or
// never comes keeps nobody waiting but for the items that it has begun.
class WorkSteps {
 public:
  // `spin`: how long a thread waits awake for the end of a step before it sleeps.
  explicit WorkSteps(size_t size, std::chrono::microseconds spin = {});

  size_t size() const { return size_; }

  // Makes the next step the first one. No member is in a step.
  void Restart();

 private:
  friend class Member;
  // How much of its share a member has given away: the number of the step in the upper half, items
  // in the lower. What an earlier step left there means none.
  struct alignas(64) Given {
    std::atomic<uint64_t> items{0};
  };

  const size_t size_;
  const std::chrono::microseconds spin_;
  std::unique_ptr<Given[]> given_;             // one a member; nullptr for one member
  alignas(64) std::atomic<uint32_t> step_{0};  // the one that is being done
  std::atomic<uint32_t> done_{0};              // items of it
};

// A thread's part in the steps. All members go through the same steps with the same numbers of
// items (fewer than 2^32); one that joins late passes those that are done.
class Member {
 public:
  // rank: less than steps.size(), one thread a rank.
  Member(WorkSteps& steps, size_t rank) : steps_(steps), rank_(rank) {}

  size_t rank() const { return rank_; }

  // The next step: calls f(begin, end) for runs of items, so that over all members each item is
  // done once, and returns when all are done. What any member wrote in a step is visible to all
  // after it.
  template <typename F>
  void ForEach(size_t items, const F& f) {
    if (items == 0) return;
    if (steps_.size_ == 1) {
      f(size_t{0}, items);
      return;
    }
    const uint32_t step = next_++;
    // Own items first: who is last to finish them ends the step without a look at the others'.
    if (AddDone(Work(rank_, items, step, f), items)) return;
    size_t others = 0;
    for (size_t i = 1; i < steps_.size_ && !Finished(step); ++i) {
      others += Work((rank_ + i) % steps_.size_, items, step, f);
    }
    if (AddDone(others, items)) return;
    WaitWhile(steps_.step_, step, steps_.spin_, Spin::kKeep);
  }

 private:
  bool Finished(uint32_t step) const {
    return steps_.step_.load(std::memory_order_acquire) != step;
  }

  // Does what is left of a member's share, and returns how many items that was.
  template <typename F>
  size_t Work(size_t whose, size_t items, uint32_t step, const F& f) {
    size_t count = 0;
    for (Share run = Take(whose, items, step); run.begin < run.end;
         run = Take(whose, items, step)) {
      f(run.begin, run.end);
      count += run.end - run.begin;
    }
    return count;
  }

  Share Take(size_t whose, size_t items, uint32_t step);
  bool AddDone(size_t count, size_t items);

  WorkSteps& steps_;
  const size_t rank_;
  uint32_t next_ = 0;  // the step that ForEach does
};

}  // namespace sprat

#endif  // SPRAT_BASE_WORK_STEPS_H_
