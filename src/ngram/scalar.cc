// The n-gram kernels written to be read.
#include <bit>
#include <limits>

#include "ngram/ngram_kernels.h"

namespace sprat {
namespace {

float FromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Round to nearest even; a NaN stays one.
uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// S.EEEE.MMM, bias 7, subnormals, no infinities (OCP 8-bit floating point specification, 5.1).
float FromE4m3(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15, mantissa = code & 7;
  float magnitude;
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  } else {
    magnitude = std::bit_cast<float>(((exponent + 120) << 23) | (mantissa << 20));
  }
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

void Hash(const HashPlan& plan, const uint32_t* windows, size_t tokens, uint32_t* ids) {
  const size_t padded = (plan.tables + HashPlan::kTableMultiple - 1) / HashPlan::kTableMultiple *
                        HashPlan::kTableMultiple;
  for (size_t t = 0; t < tokens; ++t) {
    const uint32_t* window = windows + t * plan.order;
    for (size_t i = 0; i < plan.tables; ++i) {
      uint64_t sum = window[0];
      for (size_t s = 1; s < plan.order; ++s) {
        sum += window[s] * plan.power[(s - 1) * padded + i];
      }
      ids[t * plan.tables + i] = static_cast<uint32_t>(sum % plan.modulus[i]);
    }
  }
}

void DecodeE4m3(const uint8_t* codes, float scale, size_t n, uint16_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = ToBf16(FromE4m3(codes[i]) * scale);
}

void Project(const Projection& p) {
  for (size_t t = 0; t < p.tokens; ++t) {
    for (size_t c = 0; c < p.columns; ++c) {
      float sum = 0;
      for (size_t k = 0; k < p.depth; ++k) {
        const uint16_t weight = p.w[(k / 2 * Projection::kPanel + c) * 2 + k % 2];
        sum += FromBf16(p.x[t * p.depth + k]) * FromBf16(weight);
      }
      float& y = p.y[t * p.y_stride + c];
      y = p.word_scale * y + p.sum_scale * sum;
    }
  }
}

constexpr NgramKernels kScalar{
    .name = "scalar", .hash = Hash, .decode_e4m3 = DecodeE4m3, .project = Project};

}  // namespace

const NgramKernels& ScalarNgramKernels() { return kScalar; }

}  // namespace sprat
