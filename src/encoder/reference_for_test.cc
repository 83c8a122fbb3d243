#include "encoder/reference_for_test.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"

namespace sprat {
namespace {

using Rows = std::vector<std::vector<double>>;

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return x;
}

// One head of softmax(q k^T / sqrt(D)) v, columns [first, first + D) of each.
void AttendHead(const Rows& q, const Rows& k, const Rows& v, size_t first, size_t D, Rows& out) {
  for (size_t i = 0; i < q.size(); ++i) {
    std::vector<double> weights;
    double sum = 0;
    for (const std::vector<double>& key : k) {
      double score = 0;
      for (size_t d = first; d < first + D; ++d) score += q[i][d] * key[d];
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(D))));
      sum += weights.back();
    }
    for (size_t j = 0; j < v.size(); ++j) {
      for (size_t d = first; d < first + D; ++d) out[i][d] += weights[j] / sum * v[j][d];
    }
  }
}

std::vector<double> PoolTokens(const Rows& x, Pooling pooling) {
  if (pooling == Pooling::kCls) return x.front();
  if (pooling == Pooling::kLastToken) return x.back();
  std::vector<double> pooled(x.front().size(), pooling == Pooling::kMax ? -INFINITY : 0.0);
  double divisor = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double weight = pooling == Pooling::kWeightedMean ? static_cast<double>(i + 1) : 1.0;
    divisor += weight;
    for (size_t c = 0; c < pooled.size(); ++c) {
      pooled[c] =
          pooling == Pooling::kMax ? std::max(pooled[c], x[i][c]) : pooled[c] + weight * x[i][c];
    }
  }
  if (pooling == Pooling::kMax) return pooled;
  if (pooling == Pooling::kMeanSqrtLen) divisor = std::sqrt(divisor);
  for (double& value : pooled) value /= divisor;
  return pooled;
}

}  // namespace

ReferenceEncoder::ReferenceEncoder(const EncoderConfig& config, std::vector<TestTensor> tensors)
    : config_(config) {
  for (TestTensor& tensor : tensors) tensors_.emplace(tensor.name, std::move(tensor));
}

const std::vector<float>& ReferenceEncoder::Values(const std::string& name) const {
  const auto found = tensors_.find(name);
  CHECK(found != tensors_.end());
  return found->second.values;
}

std::vector<double> ReferenceEncoder::Linear(const std::string& name,
                                             const std::vector<double>& x) const {
  const std::vector<float>& w = Values(name + ".weight");
  const std::vector<float>& b = Values(name + ".bias");
  std::vector<double> y(b.begin(), b.end());
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < x.size(); ++i) y[o] += x[i] * w[o * x.size() + i];
  }
  return y;
}

void ReferenceEncoder::AddLayerNorm(const std::string& name, const std::vector<double>& y,
                                    std::vector<double>& x) const {
  const auto n = static_cast<double>(x.size());
  double mean = 0;
  for (size_t c = 0; c < x.size(); ++c) mean += (x[c] += y[c]) / n;
  double variance = 0;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  for (size_t c = 0; c < x.size(); ++c) {
    x[c] = (x[c] - mean) / std::sqrt(variance + double{config_.layer_norm_eps}) *
               Values(name + ".weight")[c] +
           Values(name + ".bias")[c];
  }
}

void ReferenceEncoder::Layer(const std::string& name, Rows& x) const {
  Rows q, k, v;
  for (const std::vector<double>& row : x) {
    q.push_back(Linear(name + "attention.self.query", row));
    k.push_back(Linear(name + "attention.self.key", row));
    v.push_back(Linear(name + "attention.self.value", row));
  }
  const size_t D = config_.hidden / config_.heads;
  Rows heads(x.size(), std::vector<double>(config_.hidden, 0.0));
  for (size_t head = 0; head < config_.heads; ++head) AttendHead(q, k, v, head * D, D, heads);
  for (size_t i = 0; i < x.size(); ++i) {
    AddLayerNorm(name + "attention.output.LayerNorm",
                 Linear(name + "attention.output.dense", heads[i]), x[i]);
    std::vector<double> ffn = Linear(name + "intermediate.dense", x[i]);
    for (double& value : ffn) value = Activate(config_.activation, value);
    AddLayerNorm(name + "output.LayerNorm", Linear(name + "output.dense", ffn), x[i]);
  }
}

Rows ReferenceEncoder::Tokens(std::span<const uint32_t> ids, size_t layers) const {
  const size_t H = config_.hidden;
  Rows x;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<double> word(H), rest(H);
    for (size_t c = 0; c < H; ++c) {
      word[c] = Values("embeddings.word_embeddings.weight")[ids[i] * H + c];
      rest[c] = double{Values("embeddings.position_embeddings.weight")[i * H + c]} +
                Values("embeddings.token_type_embeddings.weight")[c];
    }
    AddLayerNorm("embeddings.LayerNorm", rest, word);
    x.push_back(word);
  }
  for (size_t i = 0; i < layers; ++i) Layer("encoder.layer." + std::to_string(i) + ".", x);
  return x;
}

std::vector<double> ReferenceEncoder::Embed(std::span<const uint32_t> ids, Pooling pooling) const {
  std::vector<double> pooled = PoolTokens(Tokens(ids, config_.layers), pooling);
  double squares = 0;
  for (const double value : pooled) squares += value * value;
  for (double& value : pooled) value /= std::max(std::sqrt(squares), 1e-12);
  return pooled;
}

TensorSource ReferenceEncoder::Source() const {
  return [this](std::string_view name, std::span<const uint64_t> shape) -> Result<SourceTensor> {
    const auto found = tensors_.find(name);
    CHECK(found != tensors_.end());
    CHECK(std::ranges::equal(found->second.shape, shape));
    return SourceTensor{found->second.values, true};
  };
}

}  // namespace sprat
