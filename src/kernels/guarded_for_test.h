// Inputs and outputs of kernel tests.
#ifndef SPRAT_KERNELS_GUARDED_FOR_TEST_H_
#define SPRAT_KERNELS_GUARDED_FOR_TEST_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/matrix_view.h"

namespace sprat {

inline constexpr double kUnitRoundoff = 0x1p-24;  // u in kernels.h

// A (rows, columns) matrix of f32 with a stride and a misalignment, surrounded by NaN and with NaN
// between the rows: a kernel that reads one spoils its result, one that writes one is caught.
class Guarded {
 public:
  struct Shape {
    size_t rows;
    size_t columns;
    size_t gap = 5;
    size_t misaligned_floats = 1;
  };

  explicit Guarded(const Shape& shape)
      : memory_(shape.misaligned_floats + shape.rows * (shape.columns + shape.gap) + 32,
                std::numeric_limits<float>::quiet_NaN()),
        view_(memory_.data() + shape.misaligned_floats, shape.rows, shape.columns,
              shape.columns + shape.gap) {
    Fill(0.0f);
  }

  // Uniform in [-1, 1).
  Guarded(const Shape& shape, uint64_t seed) : Guarded(shape) {
    std::mt19937_64 random(seed);
    for (size_t r = 0; r < view_.rows; ++r) {
      for (float& x : view_.RowSpan(r)) x = Uniform(random);
    }
  }

  Guarded(Guarded&&) = default;  // moving a vector keeps its elements in place
  Guarded(const Guarded&) = delete;

  void Fill(float value) {
    for (size_t r = 0; r < view_.rows; ++r) {
      for (float& x : view_.RowSpan(r)) x = value;
    }
  }

  MatrixView<float> view() const { return view_; }
  float* Row(size_t r) const { return view_.Row(r); }
  size_t stride() const { return view_.stride; }

  // The rows one after the other, without gaps.
  std::vector<float> Dense() const {
    std::vector<float> dense;
    for (size_t r = 0; r < view_.rows; ++r) {
      dense.insert(dense.end(), view_.Row(r), view_.Row(r) + view_.columns);
    }
    return dense;
  }

  // Whether every element outside the matrix is still NaN.
  bool GuardsIntact() const {
    size_t numbers = 0;
    for (const float x : memory_) numbers += std::isnan(x) ? 0 : 1;
    return numbers == view_.rows * view_.columns;
  }

 private:
  static float Uniform(std::mt19937_64& random) {
    return static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-23 - 1.0);
  }

  std::vector<float> memory_;
  MatrixView<float> view_;
};

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace sprat

#endif  // SPRAT_KERNELS_GUARDED_FOR_TEST_H_
