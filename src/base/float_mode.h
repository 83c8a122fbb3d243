// The floating-point mode of a thread.
#ifndef SPRAT_BASE_FLOAT_MODE_H_
#define SPRAT_BASE_FLOAT_MODE_H_

#include <cstdint>

namespace sprat {

// While it lives, this thread computes in round-to-nearest, with floating-point exceptions masked,
// and takes denormal inputs and results as zero (x86-64: MXCSR FTZ and DAZ; arm64: FPCR.FZ), so
// that neither a denormal slows a kernel nor the caller's settings change a vector. Afterwards the
// thread's own mode is back. Must end on the thread where it began.
class ScopedFlushToZero {
 public:
  ScopedFlushToZero();
  ~ScopedFlushToZero();
  ScopedFlushToZero(const ScopedFlushToZero&) = delete;
  ScopedFlushToZero& operator=(const ScopedFlushToZero&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace sprat

#endif  // SPRAT_BASE_FLOAT_MODE_H_
