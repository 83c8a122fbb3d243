// When a batch starts and what fits into it: pure functions of limits, what waits, and time.
#ifndef SPRAT_BATCHER_POLICY_H_
#define SPRAT_BATCHER_POLICY_H_

#include <chrono>
#include <cstddef>
#include <optional>

#include "sprat/result.h"

namespace sprat {

using Clock = std::chrono::steady_clock;

// How requests are joined. A *single* request has one text, an *array* has several.
struct BatchLimits {
  // How long the first single request of an idle period lets others join it. 0: run now if the
  // device is free, otherwise join the batch that starts when it becomes free.
  Clock::duration window{0};
  size_t max_batch = 64;      // single requests in a batch
  size_t max_tokens = 16384;  // tokens in a batch, or in a chunk of an array
  size_t max_queue_requests = 1024;
  size_t max_queue_tokens = 1'000'000;
  // Whether an array keeps the device from its first chunk to its last instead of letting single
  // requests run between two chunks. Default: only with a window.
  std::optional<bool> array_hold = std::nullopt;
  // A request of at most so many tokens may be run by the thread that submits it, if the device is
  // free: right where a batch takes microseconds and waking another thread would cost more.
  size_t inline_tokens = 0;

  bool ArrayHold() const { return array_hold.value_or(window > Clock::duration::zero()); }
};

// kInvalidArgument naming the limit that is zero or negative.
Result<void> CheckLimits(const BatchLimits& limits);

// Requests that have not started.
struct Waiting {
  size_t requests = 0;
  size_t tokens = 0;
  Clock::time_point oldest{};  // when the first of them came; meaningless if there are none
};

// When the batch of waiting single requests must start; nullopt if nothing waits. A full batch is
// due at `oldest`, that is, now.
std::optional<Clock::time_point> DueAt(const BatchLimits& limits, const Waiting& waiting);

// Whether the queue takes another request of `tokens` tokens, or the kOverloaded that says which
// bound it hits. An empty queue takes a request of any size, which could never run otherwise.
Result<void> Admit(const BatchLimits& limits, const Waiting& queued, size_t tokens);

// What still fits into one batch. The first text always does: one that is longer than a batch runs
// alone.
class Room {
 public:
  Room(size_t texts, size_t tokens) : texts_(texts), tokens_(tokens) {}

  // Takes room for a text of `tokens` tokens; false if there is none left.
  bool Add(size_t tokens);

 private:
  size_t texts_;
  size_t tokens_;
  bool empty_ = true;
};

}  // namespace sprat

#endif  // SPRAT_BATCHER_POLICY_H_
