#include "base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sprat {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kFlushToZero{0x8000 | 0x0040 | 0x1f80};  // FTZ, DAZ, every exception masked

uint64_t ReadMode() { return _mm_getcsr(); }
void WriteMode(uint64_t mode) { _mm_setcsr(static_cast<uint32_t>(mode)); }
#elif defined(__aarch64__)
constexpr uint64_t kFlushToZero{uint64_t{1} << 24};  // FZ, no traps, round to nearest

uint64_t ReadMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void WriteMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
#error "Sprat supports x86-64 and arm64"
#endif

}  // namespace

ScopedFlushToZero::ScopedFlushToZero() : saved_(ReadMode()) { WriteMode(kFlushToZero); }

ScopedFlushToZero::~ScopedFlushToZero() { WriteMode(saved_); }

}  // namespace sprat
