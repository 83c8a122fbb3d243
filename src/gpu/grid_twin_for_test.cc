#include "gpu/grid_twin_for_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/check.h"
#include "gpu/half.h"

namespace sprat::gpu::grid {
namespace {

float Gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }

float Half(float x) { return FromHalf(ToHalf(x)); }

float WeightAt(const std::byte* fragment, uint32_t row, uint32_t column) {
  uint16_t half = 0;
  std::memcpy(&half, fragment + 2 * FragmentOffset(row, column), sizeof half);
  return FromHalf(half);
}

template <typename T>
T ConstantAt(const std::byte* stage, Role role, size_t i) {
  T value;
  std::memcpy(&value, stage + StageConstantsAt(role) + i * sizeof value, sizeof value);
  return value;
}

}  // namespace

size_t ExchangeMemory::WordAt(Exchange exchange, uint32_t layer, uint32_t token,
                              uint32_t column) const {
  return ExchangeAt(exchange, layer, column / kSlice, token / kTile, tiles_) +
         SliceWord(token % kTile, column % kSlice / 2 * 2);
}

float ExchangeMemory::Get(Exchange exchange, uint32_t layer, uint32_t token,
                          uint32_t column) const {
  const uint32_t word = words_[WordAt(exchange, layer, token, column)];
  CHECK(word != kUnset);  // read before it was written
  return FromHalf(static_cast<uint16_t>(word >> (column % 2 * 16)));
}

void ExchangeMemory::Set(Exchange exchange, uint32_t layer, uint32_t token, uint32_t column,
                         float value) {
  uint32_t& word = words_[WordAt(exchange, layer, token, column)];
  const uint32_t shift = column % 2 * 16;
  word = (word & ~(0xffffu << shift)) | uint32_t{ToHalf(value)} << shift;
}

Result<Ends> Ends::Read(const EncoderConfig& config, const ReadTensor& read) {
  Ends ends;
  ends.eps = config.layer_norm_eps;
  const std::string last = fmt::format("encoder.layer.{}.output.LayerNorm", config.layers - 1);
  const auto get = [&](const std::string& name, std::vector<uint64_t> shape,
                       std::vector<float>& out) {
    size_t n = 1;
    for (const uint64_t dimension : shape) n *= dimension;
    out.resize(n);
    return read(name, shape, out);
  };
  Result<void> done =
      get("embeddings.word_embeddings.weight", {config.vocabulary, kHidden}, ends.words);
  if (done.ok()) {
    done =
        get("embeddings.position_embeddings.weight", {config.positions, kHidden}, ends.positions);
  }
  if (done.ok()) {
    done = get("embeddings.token_type_embeddings.weight", {config.token_types, kHidden}, ends.type);
  }
  if (done.ok()) done = get(last + ".weight", {kHidden}, ends.gamma);
  if (done.ok()) done = get(last + ".bias", {kHidden}, ends.beta);
  if (!done.ok()) return std::move(done.error());
  return ends;
}

void Ends::Start(std::span<const uint32_t> ids, ExchangeMemory& exchange) const {
  for (uint32_t token = 0; token < exchange.tiles() * kTile; ++token) {
    for (uint32_t c = 0; c < kHidden; ++c) {
      float sum = 0;
      if (token < ids.size()) {
        sum = Half(words[size_t{ids[token]} * kHidden + c]) +
              Half(positions[size_t{token} * kHidden + c] + type[c]);
      }
      exchange.Set(Exchange::kX, 0, token, c, sum);
    }
  }
}

std::vector<float> Ends::Finish(const ExchangeMemory& exchange, uint32_t layers,
                                uint32_t tokens) const {
  std::vector<double> pooled(kHidden, 0.0);
  for (uint32_t token = 0; token < tokens; ++token) {
    double sum = 0, squares = 0;
    for (uint32_t c = 0; c < kHidden; ++c) {
      const double x = static_cast<double>(exchange.Get(Exchange::kX, layers, token, c));
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kHidden;
    const double scale = 1 / std::sqrt(squares / kHidden - mean * mean + static_cast<double>(eps));
    for (uint32_t c = 0; c < kHidden; ++c) {
      const double x = static_cast<double>(exchange.Get(Exchange::kX, layers, token, c));
      pooled[c] +=
          (x - mean) * scale * static_cast<double>(gamma[c]) + static_cast<double>(beta[c]);
    }
  }
  double squares = 0;
  for (const double x : pooled) squares += x * x;
  std::vector<float> vector;
  for (const double x : pooled) vector.push_back(static_cast<float>(x / std::sqrt(squares)));
  return vector;
}

float GridTwin::Product(const Task& task, const grid::Product& product, size_t fragments_at,
                        uint32_t row, Exchange from, uint32_t token,
                        const ExchangeMemory& exchange) const {
  std::vector<float> partials;
  for (uint32_t warp = 0; warp < kWarps; ++warp) {
    const uint32_t tile = row / kFragment % product.tiles;
    if (product.Tile(warp, tile) != row / kFragment) continue;
    float chains[2] = {};
    for (uint32_t step = 0; step < product.steps; ++step) {
      const std::byte* fragment =
          task.stage + fragments_at + product.FragmentAt(warp, tile, step) * kFragmentBytes;
      double sum = 0;
      for (uint32_t k = 0; k < kFragment; ++k) {
        const uint32_t column = product.Step(warp, step) * kFragment + k;
        sum += static_cast<double>(WeightAt(fragment, row % kFragment, k)) *
               static_cast<double>(exchange.Get(from, task.layer, token, column));
      }
      float& chain = chains[step % 2];
      chain = static_cast<float>(static_cast<double>(chain) + sum);
    }
    partials.push_back(chains[0] + chains[1]);
  }
  if (partials.size() == 4) {
    const float four[4] = {partials[0], partials[1], partials[2], partials[3]};
    return SumPartials(four);
  }
  CHECK(partials.size() == kWarps);
  float all[kWarps];
  std::copy(partials.begin(), partials.end(), all);
  return SumPartials(all);
}

GridTwin::Moments GridTwin::MomentsOf(Exchange from, uint32_t layer, uint32_t token,
                                      const ExchangeMemory& exchange) const {
  float sums[kWarps], squares[kWarps];
  for (uint32_t warp = 0; warp < kWarps; ++warp) {
    float s[4] = {}, ss[4] = {};  // lanes of a quad
    for (uint32_t q = 0; q < 4; ++q) {
      for (uint32_t chunk = 0; chunk < 4; ++chunk) {
        const uint32_t column = warp * kSlice + 8 * chunk + 2 * q;
        const float x = exchange.Get(from, layer, token, column);
        const float y = exchange.Get(from, layer, token, column + 1);
        s[q] += x + y;
        ss[q] = std::fma(y, y, std::fma(x, x, ss[q]));
      }
    }
    sums[warp] = (s[0] + s[1]) + (s[2] + s[3]);
    squares[warp] = (ss[0] + ss[1]) + (ss[2] + ss[3]);
  }
  const float mean = SumPartials(sums) * (1.0f / kHidden);
  const float variance = std::fma(-mean, mean, SumPartials(squares) * (1.0f / kHidden));
  return {mean, 1.0f / std::sqrt(std::max(variance, 0.0f) + eps_)};
}

float GridTwin::FoldedProduct(const Task& task, const grid::Product& product, uint32_t row,
                              Exchange from, uint32_t token, const ExchangeMemory& exchange) const {
  const FoldedRow constants = ConstantAt<FoldedRow>(task.stage, task.assignment.role, row);
  const Moments moments = MomentsOf(from, task.layer, token, exchange);
  const float sum = Product(task, product, 0, row, from, token, exchange);
  return std::fma(moments.scale, std::fma(-moments.mean, constants.sum, sum), constants.bias);
}

void GridTwin::Attend(const Task& task, uint32_t tokens, ExchangeMemory& exchange) const {
  const uint32_t rows = exchange.tiles() * kTile;
  std::vector<float> qkv(size_t{rows} * 3 * kHead);  // [token][row]
  for (uint32_t token = 0; token < rows; ++token) {
    for (uint32_t row = 0; row < 3 * kHead; ++row) {
      qkv[size_t{token} * 3 * kHead + row] =
          Half(FoldedProduct(task, kQkvProduct, row, Exchange::kX, token, exchange));
    }
  }
  const auto at = [&](uint32_t token, uint32_t part, uint32_t d) {
    return static_cast<double>(qkv[(size_t{token} * 3 + part) * kHead + d]);
  };
  for (uint32_t query = 0; query < rows; ++query) {
    std::vector<float> scores;
    float most = -std::numeric_limits<float>::infinity(), total = 0;
    for (uint32_t key = 0; key < tokens; ++key) {
      float score = 0;
      for (uint32_t step = 0; step < kHead; step += kFragment) {
        double sum = 0;
        for (uint32_t d = step; d < step + kFragment; ++d) sum += at(query, 0, d) * at(key, 1, d);
        score = static_cast<float>(static_cast<double>(score) + sum);
      }
      scores.push_back(score);
      most = std::max(most, score);
    }
    for (float& score : scores) total += score = std::exp2(score - most);
    for (uint32_t d = 0; d < kHead; ++d) {
      double sum = 0;
      for (uint32_t key = 0; key < tokens; ++key) {
        sum += static_cast<double>(Half(scores[key])) * at(key, 2, d);
      }
      exchange.Set(Exchange::kContext, task.layer, query, task.assignment.part * kHead + d,
                   static_cast<float>(sum) / total);
    }
  }
}

void GridTwin::Up(const Task& task, ExchangeMemory& exchange) const {
  for (uint32_t token = 0; token < exchange.tiles() * kTile; ++token) {
    for (uint32_t row = 0; row < kUpColumns; ++row) {
      exchange.Set(Exchange::kInner, task.layer, token, task.assignment.part * kUpColumns + row,
                   Gelu(FoldedProduct(task, kUpProduct, row, Exchange::kY, token, exchange)));
    }
  }
}

void GridTwin::Output(const Task& task, bool down, std::vector<float>& raw,
                      ExchangeMemory& exchange) const {
  const Exchange residual = down ? Exchange::kY : Exchange::kX;
  for (uint32_t token = 0; token < exchange.tiles() * kTile; ++token) {
    const Moments moments = MomentsOf(residual, task.layer, token, exchange);
    for (uint32_t i = 0; i < kOutputColumns; ++i) {
      const uint32_t column = task.assignment.part * kOutputColumns + i;
      float& kept = raw[token * kOutputColumns + i];
      if (!down && task.layer % kOutputLayers == 0) {
        kept = exchange.Get(Exchange::kX, task.layer, token, column);
      }
      const auto c =
          ConstantAt<ResidualColumn>(task.stage, Role::kOutput, i + (down ? kOutputColumns : 0));
      const float product =
          down ? Product(task, kDownProduct, kOutProduct.Fragments() * kFragmentBytes, i,
                         Exchange::kInner, token, exchange)
               : Product(task, kOutProduct, 0, i, Exchange::kContext, token, exchange);
      kept = (product + c.bias) + std::fma((kept - moments.mean) * moments.scale, c.gamma, c.beta);
      exchange.Set(down ? Exchange::kX : Exchange::kY, task.layer + (down ? 1 : 0), token, column,
                   kept);
    }
  }
}

void GridTwin::Run(uint32_t tokens, ExchangeMemory& exchange) const {
  CHECK(tokens <= exchange.tiles() * kTile && weights_.size() >= kWeightBytes);
  std::vector<std::vector<float>> raw(
      kHidden / kOutputColumns, std::vector<float>(exchange.tiles() * kTile * kOutputColumns));
  const auto each = [&](uint32_t layer, Role role, const auto& work) {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const Assignment assignment = AssignmentOf(block);
      if (assignment.role != role) continue;
      for (uint32_t stage = 0; stage < assignment.Stages(); ++stage) {
        if (assignment.Layer(stage) != layer) continue;
        work(Task{weights_.data() + StageAt(block, stage), assignment, layer});
      }
    }
  };
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    each(layer, Role::kAttention, [&](const Task& task) { Attend(task, tokens, exchange); });
    each(layer, Role::kOutput,
         [&](const Task& task) { Output(task, false, raw[task.assignment.part], exchange); });
    each(layer, Role::kUp, [&](const Task& task) { Up(task, exchange); });
    each(layer, Role::kOutput,
         [&](const Task& task) { Output(task, true, raw[task.assignment.part], exchange); });
  }
}

}  // namespace sprat::gpu::grid
