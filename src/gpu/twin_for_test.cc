#include "gpu/twin_for_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "gpu/half.h"

namespace sprat::gpu {
namespace {

// Lanes combined l with l ^ 4, ^ 8, ^ 1, ^ 2 (plan.h).
float SumLanes(std::vector<float> lanes) {
  for (const uint32_t mask : {4u, 8u, 1u, 2u}) {
    std::vector<float> next(kNormLanes);
    for (uint32_t l = 0; l < kNormLanes; ++l) next[l] = lanes[l] + lanes[l ^ mask];
    lanes = next;
  }
  return lanes[0];
}

float Gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }

}  // namespace

Twin::Twin(const EncoderConfig& config, Pooling pooling, std::span<const std::byte> weights)
    : config_(config),
      layout_{
          .vocabulary = config.vocabulary, .positions = config.positions, .layers = config.layers},
      pooling_(pooling),
      weights_(weights) {
  CHECK(weights.size() >= layout_.Bytes());
}

const uint16_t* Twin::Halves(size_t at) const {
  return reinterpret_cast<const uint16_t*>(weights_.data() + at);
}
const float* Twin::Floats(size_t at) const {
  return reinterpret_cast<const float*>(weights_.data() + at);
}

float Twin::At(const Panels& panels, size_t row, size_t column) const {
  return FromHalf(panels.values[PanelOffset(row, column, tokens_)]);
}
void Twin::Set(Panels& panels, size_t row, size_t column, float value) const {
  panels.values[PanelOffset(row, column, tokens_)] = ToHalf(value);
}

Twin::Panels& Twin::Operand(Buffer buffer) {
  switch (buffer) {
    case Buffer::kOperand:
      return operand_;
    case Buffer::kQkv:
      return qkv_;
    case Buffer::kContext:
      return context_;
    default:
      CHECK(buffer == Buffer::kInner);
      return inner_;
  }
}

std::vector<float> Twin::Embed(const TokenBatch& batch, Path path, const ResultForm& form) {
  const Piece piece{
      .first = 0, .end = batch.sequences(), .tokens = static_cast<uint32_t>(batch.tokens.size())};
  tokens_ = piece.tokens;
  request_layout_ = {.tokens = tokens_, .sequences = piece.sequences()};
  request_.assign(request_layout_.Bytes(), std::byte{0});
  WriteRequest(batch, piece, form, request_layout_, request_);
  // Poisoned, so that a step that reads what none before it wrote shows.
  const auto poison = [&](size_t columns) {
    return Panels{columns, std::vector<uint16_t>(tokens_ * columns, 0x7e00)};
  };
  operand_ = poison(kHidden);
  qkv_ = poison(3 * kHidden);
  context_ = poison(kHidden);
  inner_ = poison(kFfn);
  sum_.assign(size_t{tokens_} * kHidden, std::numeric_limits<float>::quiet_NaN());
  state_ = sum_;
  result_.assign(batch.sequences() * kHidden, 0.0f);
  for (const Step& step : PlanSteps(path, config_.layers)) Run(step);
  return result_;
}

void Twin::Run(const Step& step) {
  switch (step.operation) {
    case Operation::kEmbed:
      return EmbedRows(true);
    case Operation::kEmbedNorm:
      EmbedRows(false);
      NormaliseInto(state_, step.norm);
      return StateToOperand();
    case Operation::kNormLinear:
    case Operation::kNormLinearGelu: {
      state_ = sum_;
      NormaliseInto(state_, step.norm);
      StateToOperand();  // on the device in shared memory only
      return Linear(step, operand_, Operand(step.out),
                    step.operation == Operation::kNormLinearGelu);
    }
    case Operation::kLinear:
    case Operation::kLinearGelu:
      return Linear(step, Operand(step.in), Operand(step.out),
                    step.operation == Operation::kLinearGelu);
    case Operation::kNormAttend:
      Run({Operation::kNormLinear, step.layer, step.matrix, step.in, Buffer::kQkv, step.norm});
      return Attend();
    case Operation::kAttention:
      return Attend();
    case Operation::kLinearResidual:
      return LinearResidual(step, sum_);
    case Operation::kLinearResidualNorm:
      LinearResidual(step, state_);
      NormaliseInto(state_, step.norm);
      return StateToOperand();
    case Operation::kNormPool: {
      std::vector<float> rows = sum_;
      NormaliseInto(rows, step.norm);
      return PoolRows(rows);
    }
    case Operation::kPool:
      return PoolRows(state_);
  }
}

void Twin::EmbedRows(bool to_sum) {
  const auto* ids = reinterpret_cast<const uint32_t*>(request_.data() + request_layout_.IdsAt());
  const auto* places =
      reinterpret_cast<const uint32_t*>(request_.data() + request_layout_.PositionsAt());
  const uint16_t* words = Halves(layout_.WordsAt());
  const uint16_t* positions = Halves(layout_.PositionsAt());
  std::vector<float>& out = to_sum ? sum_ : state_;
  for (size_t t = 0; t < tokens_; ++t) {
    for (size_t c = 0; c < kHidden; ++c) {
      out[t * kHidden + c] = FromHalf(words[size_t{ids[t]} * kHidden + c]) +
                             FromHalf(positions[size_t{places[t]} * kHidden + c]);
    }
  }
}

void Twin::NormaliseInto(std::vector<float>& rows, uint32_t norm) const {
  const float* gamma = Floats(layout_.NormAt(norm));
  const float* beta = gamma + kHidden;
  for (size_t t = 0; t < tokens_; ++t) {
    float* row = rows.data() + t * kHidden;
    std::vector<float> sums(kNormLanes, 0.0f), squares(kNormLanes, 0.0f);
    for (uint32_t l = 0; l < kNormLanes; ++l) {
      for (uint32_t j = 0; j < kNormPairs; ++j) {
        const float* pair = row + NormColumn(l, j);
        sums[l] = sums[l] + pair[0] + pair[1];
      }
    }
    const float mean = SumLanes(sums) * (1.0f / kHidden);
    for (uint32_t l = 0; l < kNormLanes; ++l) {
      for (uint32_t j = 0; j < kNormPairs; ++j) {
        const float* pair = row + NormColumn(l, j);
        const float a = pair[0] - mean, b = pair[1] - mean;
        squares[l] = std::fma(b, b, std::fma(a, a, squares[l]));
      }
    }
    const float scale =
        1.0f / std::sqrt(std::fma(SumLanes(squares), 1.0f / kHidden, config_.layer_norm_eps));
    for (size_t c = 0; c < kHidden; ++c) {
      row[c] = std::fma(std::fma(row[c], scale, -mean * scale), gamma[c], beta[c]);
    }
  }
}

void Twin::StateToOperand() {
  for (size_t t = 0; t < tokens_; ++t) {
    for (size_t c = 0; c < kHidden; ++c) Set(operand_, t, c, state_[t * kHidden + c]);
  }
}

// sums[t, n], which hold what the products start from, += in . W^T + b in the order of plan.h.
void Twin::AddProducts(const Panels& in, const Step& step, std::vector<float>& sums) const {
  const uint32_t rows = Rows(step.matrix), depth = Columns(step.matrix);
  const uint16_t* weights = Halves(layout_.MatrixAt(step.layer, step.matrix));
  const float* bias = Floats(layout_.BiasAt(step.layer, step.matrix));
  std::vector<double> wide(size_t{tokens_} * depth), column(depth);
  for (size_t t = 0; t < tokens_; ++t) {
    for (size_t k = 0; k < depth; ++k) wide[t * depth + k] = static_cast<double>(At(in, t, k));
  }
  for (size_t n = 0; n < rows; ++n) {
    for (size_t k = 0; k < depth; ++k) {
      column[k] = static_cast<double>(FromHalf(weights[PanelOffset(n, k, rows)]));
    }
    for (size_t t = 0; t < tokens_; ++t) {
      float sum = sums[t * rows + n] + bias[n];
      for (size_t k = 0; k < depth; k += kMmaDepth) {
        double exact = static_cast<double>(sum);
        for (size_t i = k; i < k + kMmaDepth; ++i) exact += wide[t * depth + i] * column[i];
        sum = static_cast<float>(exact);
      }
      sums[t * rows + n] = sum;
    }
  }
}

void Twin::Linear(const Step& step, const Panels& in, Panels& out, bool gelu) {
  const size_t columns = Rows(step.matrix);
  std::vector<float> sums(tokens_ * columns, 0.0f);
  AddProducts(in, step, sums);
  for (size_t t = 0; t < tokens_; ++t) {
    for (size_t n = 0; n < columns; ++n) {
      const float y = sums[t * columns + n];
      Set(out, t, n, gelu ? Gelu(y) : y);
    }
  }
}

void Twin::LinearResidual(const Step& step, std::vector<float>& out) {
  std::vector<float> sums = state_;
  AddProducts(Operand(step.in), step, sums);
  out = sums;
}

void Twin::Attend() {
  const auto& header = *reinterpret_cast<const RequestHeader*>(request_.data());
  const auto* items =
      reinterpret_cast<const AttentionItem*>(request_.data() + request_layout_.ItemsAt());
  for (uint32_t i = 0; i < header.items; ++i) {
    for (uint32_t head = 0; head < kHeads; ++head) {
      const uint32_t end = std::min(items[i].length, items[i].query + kQueryRows);
      for (uint32_t row = items[i].query; row < end; ++row) AttendRow(items[i], head, row);
    }
  }
}

// One query of one head.
void Twin::AttendRow(const AttentionItem& item, uint32_t head, uint32_t row) {
  const float scale = 0.17677669529663687f * 1.4426950408889634f;
  float maximum = -std::numeric_limits<float>::infinity(), total = 0.0f;
  std::vector<float> sums(kHead, 0.0f);
  for (uint32_t block = 0; block < item.length; block += kKeyStep) {
    const uint32_t end = std::min(item.length, block + kKeyStep);
    std::vector<float> scores(end - block);
    float largest = maximum;
    for (uint32_t key = block; key < end; ++key) {
      double score = 0;
      for (uint32_t d = 0; d < kHead; ++d) {
        score += static_cast<double>(At(qkv_, item.first + row, head * kHead + d)) *
                 static_cast<double>(At(qkv_, item.first + key, kHidden + head * kHead + d));
      }
      scores[key - block] = static_cast<float>(score) * scale;
      largest = std::max(largest, scores[key - block]);
    }
    const float shrink = std::exp2(maximum - largest);
    maximum = largest;
    total *= shrink;
    for (float& sum : sums) sum *= shrink;
    for (uint32_t key = block; key < end; ++key) {
      const float weight = std::exp2(scores[key - block] - maximum);
      total += weight;
      for (uint32_t d = 0; d < kHead; ++d) {
        sums[d] +=
            FromHalf(ToHalf(weight)) * At(qkv_, item.first + key, 2 * kHidden + head * kHead + d);
      }
    }
  }
  for (uint32_t d = 0; d < kHead; ++d) {
    Set(context_, item.first + row, head * kHead + d, sums[d] / total);
  }
}

// One pooled value: column `c` of the sequence of `length` rows that begins at row `first`.
float Twin::PoolColumn(const std::vector<float>& rows, uint32_t first, uint32_t length,
                       uint32_t c) const {
  const float n = static_cast<float>(length);
  float pooled = pooling_ == Pooling::kMax ? -std::numeric_limits<float>::infinity() : 0.0f;
  for (uint32_t t = 0; t < length; ++t) {
    const float value = rows[(first + t) * kHidden + c];
    if (pooling_ == Pooling::kMax) {
      pooled = std::max(pooled, value);
    } else if (pooling_ == Pooling::kWeightedMean) {
      pooled = std::fma(static_cast<float>(t + 1), value, pooled);
    } else if ((pooling_ != Pooling::kCls || t == 0) &&
               (pooling_ != Pooling::kLastToken || t + 1 == length)) {
      pooled += value;
    }
  }
  if (pooling_ == Pooling::kMean) return pooled / n;
  if (pooling_ == Pooling::kMeanSqrtLen) return pooled / std::sqrt(n);
  if (pooling_ == Pooling::kWeightedMean) return pooled / (n * (n + 1) / 2);
  return pooled;
}

void Twin::PoolRows(const std::vector<float>& rows) {
  const auto& header = *reinterpret_cast<const RequestHeader*>(request_.data());
  const auto* offsets =
      reinterpret_cast<const uint32_t*>(request_.data() + request_layout_.OffsetsAt());
  for (uint32_t s = 0; s < header.sequences; ++s) {
    double squares = 0;
    for (uint32_t c = 0; c < header.columns; ++c) {
      const float pooled = PoolColumn(rows, offsets[s], offsets[s + 1] - offsets[s], c);
      result_[s * kHidden + c] = pooled;
      squares += static_cast<double>(pooled) * static_cast<double>(pooled);
    }
    if (header.normalize == 0) continue;
    const float norm = std::max(static_cast<float>(std::sqrt(squares)), 1e-12f);
    for (uint32_t c = 0; c < header.columns; ++c) result_[s * kHidden + c] /= norm;
  }
}

}  // namespace sprat::gpu
