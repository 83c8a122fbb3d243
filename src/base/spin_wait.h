// Waiting for a number to change: awake at first, asleep after.
#ifndef SPRAT_BASE_SPIN_WAIT_H_
#define SPRAT_BASE_SPIN_WAIT_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sprat {

// What a thread that waits awake does with its core.
enum class Spin {
  kKeep,  // holds it: for waits of a few microseconds for a thread that runs elsewhere
  kLend   // lets any thread that wants to run have it: for waits that may be for nothing
};

// Whether `value` is no longer `old` within `at_most`. What was written before it changed is
// visible after.
bool SpinWhile(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds at_most,
               Spin spin);

// Returns when `value` is no longer `old`: spins for at most `at_most`, then sleeps. It must be
// changed by Raise.
void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds at_most,
               Spin spin);

// Adds one and lets everyone in WaitWhile go on.
void Raise(std::atomic<uint32_t>& value);

}  // namespace sprat

#endif  // SPRAT_BASE_SPIN_WAIT_H_
