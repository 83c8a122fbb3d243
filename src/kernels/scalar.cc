// The reference kernels: what each entry of the table means, written to be read. Compiled without
// vectorisation, so that its speed is honestly scalar.
#include <cmath>
#include <cstring>

#include "base/narrow_floats.h"
#include "kernels/kernels.h"

namespace sprat {
namespace {

constexpr size_t kPanelRows{kPanelRowsF32};

float Apply(Epilogue epilogue, float x) {
  switch (epilogue) {
    case Epilogue::kNone:
      return x;
    case Epilogue::kGelu:
      return x * 0.5f * std::erfc(-x * 0.70710678f);
    case Epilogue::kGeluTanh:
      return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case Epilogue::kRelu:
      return x < 0.0f ? 0.0f : x;
  }
  return x;
}

void Linear(const LinearArgs& a) {
  const float* panels = static_cast<const float*>(a.weights.panels);
  for (size_t p = a.first_panel; p < a.first_panel + a.panels; ++p) {
    const float* panel = panels + p * a.weights.in * kPanelRows;
    const size_t first = p * kPanelRows;
    const size_t columns = a.weights.out - first < kPanelRows ? a.weights.out - first : kPanelRows;
    for (size_t r = 0; r < a.rows; ++r) {
      float sums[kPanelRows] = {};
      for (size_t k = 0; k < a.weights.in; ++k) {
        const float x = a.x[r * a.x_stride + k];
        for (size_t c = 0; c < kPanelRows; ++c) sums[c] += x * panel[k * kPanelRows + c];
      }
      for (size_t c = 0; c < columns; ++c) {
        a.y[r * a.y_stride + first + c] = Apply(a.epilogue, sums[c] + a.weights.bias[first + c]);
      }
    }
  }
}

float Dot(const float* a, const float* b, size_t n) {
  float sum = 0.0f;
  for (size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

size_t AttentionScratch(size_t max_keys, size_t /*head_size*/) { return max_keys; }

void Attention(const AttentionArgs& a) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(a.head_size));
  for (size_t i = a.first_query; i < a.first_query + a.queries; ++i) {
    float* p = a.scratch;  // the row's scores, then its exponentials
    float largest = -INFINITY;
    for (size_t j = 0; j < a.keys; ++j) {
      p[j] = Dot(a.q + i * a.stride, a.k + j * a.stride, a.head_size) * scale;
      largest = p[j] > largest ? p[j] : largest;
    }
    float sum = 0.0f;
    for (size_t j = 0; j < a.keys; ++j) {
      p[j] = std::exp(p[j] - largest);
      sum += p[j];
    }
    for (size_t d = 0; d < a.head_size; ++d) {
      float mixed = 0.0f;
      for (size_t j = 0; j < a.keys; ++j) mixed += p[j] * a.v[j * a.stride + d];
      a.out[i * a.out_stride + d] = mixed / sum;
    }
  }
}

void AddLayerNorm(const LayerNormArgs& a) {
  const float n = static_cast<float>(a.columns);
  for (size_t r = 0; r < a.rows; ++r) {
    float* x = a.x + r * a.x_stride;
    const float* y = a.y + r * a.y_stride;
    float sum = 0.0f;
    for (size_t c = 0; c < a.columns; ++c) {
      x[c] += y[c];
      sum += x[c];
    }
    const float mean = sum / n;
    float squares = 0.0f;
    for (size_t c = 0; c < a.columns; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const float scale = 1.0f / std::sqrt(squares / n + a.eps);
    for (size_t c = 0; c < a.columns; ++c) {
      x[c] = (x[c] - mean) * scale * a.gamma[c] + a.beta[c];
    }
  }
}

void SumRows(const SumRowsArgs& a) {
  for (size_t c = 0; c < a.columns; ++c) {
    float sum = 0.0f;
    for (size_t r = 0; r < a.rows; ++r) {
      sum += (a.weights == nullptr ? 1.0f : a.weights[r]) * a.x[r * a.x_stride + c];
    }
    a.out[c] = sum * a.scale;
  }
}

void MaxRows(const SumRowsArgs& a) {
  for (size_t c = 0; c < a.columns; ++c) {
    float largest = a.x[c];
    for (size_t r = 1; r < a.rows; ++r) {
      const float x = a.x[r * a.x_stride + c];
      largest = x > largest ? x : largest;
    }
    a.out[c] = largest;
  }
}

// Element i of a table, which need not be aligned for its type.
float Element(const GatherArgs& a, size_t i) {
  const char* table = static_cast<const char*>(a.table);
  float f32;
  uint16_t f16;
  int8_t i8;
  switch (a.type) {
    case RowType::kF32:
      std::memcpy(&f32, table + i * sizeof f32, sizeof f32);
      return f32;
    case RowType::kF16:
      std::memcpy(&f16, table + i * sizeof f16, sizeof f16);
      return HalfToFloat(f16);
    case RowType::kI8:
      std::memcpy(&i8, table + i, sizeof i8);
      return i8;
  }
  return 0.0f;
}

void GatherRows(const GatherArgs& a) {
  for (size_t c = 0; c < a.columns; ++c) {
    float sum = 0.0f;
    for (size_t t = 0; t < a.count; ++t) {
      const float weight = a.weights == nullptr ? 1.0f : a.weights[t];
      sum += weight * Element(a, a.rows[t] * a.stride + c);
    }
    a.out[c] = a.scale * sum;
  }
}

void L2Normalize(float* x, size_t n) {
  const float norm = std::sqrt(Dot(x, x, n));
  const float divisor = norm > 1e-12f ? norm : 1e-12f;
  for (size_t i = 0; i < n; ++i) x[i] /= divisor;
}

}  // namespace

const Kernels kScalarKernels = {
    .name = "scalar",
    .panel_rows = kPanelRows,
    .panel_bytes = PanelBytesF32,
    .pack_panel = PackPanelF32,
    .linear = Linear,
    .attention = Attention,
    .attention_scratch = AttentionScratch,
    .add_layer_norm = AddLayerNorm,
    .sum_rows = SumRows,
    .max_rows = MaxRows,
    .gather_rows = GatherRows,
    .l2_normalize = L2Normalize,
};

}  // namespace sprat
