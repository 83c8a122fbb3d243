#include "kernels/kernels.h"

namespace sprat {

size_t PanelBytesF32(size_t in) { return in * kPanelRowsF32 * sizeof(float); }

void PackPanelF32(const float* w, size_t in, size_t out, size_t first_row, void* panel) {
  float* packed = static_cast<float*>(panel);
  const size_t rows = out - first_row < kPanelRowsF32 ? out - first_row : kPanelRowsF32;
  // Blocks of 16 columns: 48 streams of one cache line each are read whole while they are in L1.
  constexpr size_t kBlock{16};
  for (size_t k0 = 0; k0 < in; k0 += kBlock) {
    const size_t k1 = in - k0 < kBlock ? in : k0 + kBlock;
    for (size_t k = k0; k < k1; ++k) {
      float* line = packed + k * kPanelRowsF32;
      for (size_t c = 0; c < rows; ++c) line[c] = w[(first_row + c) * in + k];
      for (size_t c = rows; c < kPanelRowsF32; ++c) line[c] = 0.0f;
    }
  }
}

}  // namespace sprat
