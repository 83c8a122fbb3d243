#include "base/spin_wait.h"

#include <thread>

namespace sprat {
namespace {

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool SpinWhile(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds at_most,
               Spin spin) {
  if (value.load(std::memory_order_acquire) != old) return true;
  if (at_most.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + at_most;
  do {
    for (int i = 0; i < 32; ++i) {
      if (value.load(std::memory_order_acquire) != old) return true;
      Pause();
    }
    if (spin == Spin::kLend) std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old, std::chrono::microseconds at_most,
               Spin spin) {
  if (!SpinWhile(value, old, at_most, spin)) value.wait(old, std::memory_order_acquire);
}

// Sequentially consistent: notify_all wakes nobody if it sees no one asleep, so that look must not
// be taken before others can see the new value (a plain release store allows it, and a thread that
// falls asleep in between sleeps for ever).
void Raise(std::atomic<uint32_t>& value) {
  value.fetch_add(1, std::memory_order_seq_cst);
  value.notify_all();
}

}  // namespace sprat
