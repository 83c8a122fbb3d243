#include "gpu/random_model_for_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "gpu/half.h"

namespace sprat::gpu {
namespace {

// About N(0, 1): twelve uniform numbers; std::normal_distribution differs between libraries.
float Normal(std::mt19937_64& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
  return static_cast<float>(sum);
}

}  // namespace

ReadTensor RandomModel::Reader() const {
  return [this](std::string_view name, std::span<const uint64_t> shape,
                std::span<float> out) -> Result<void> {
    const auto found = tensors.find(name);
    size_t n = 1;
    for (const uint64_t dimension : shape) n *= dimension;
    if (found == tensors.end() || found->second.size() != n || out.size() != n) {
      return Error(ErrorCode::kCorrupt, fmt::format("{}: absent or of another shape", name));
    }
    std::copy(found->second.begin(), found->second.end(), out.begin());
    return {};
  };
}

RandomModel MakeRandomModel(uint32_t layers, uint32_t vocabulary, uint64_t seed) {
  RandomModel model;
  model.config = {.layers = layers,
                  .hidden = kHidden,
                  .heads = kHeads,
                  .ffn = kFfn,
                  .vocabulary = vocabulary,
                  .positions = kPositions,
                  .token_types = 2};
  std::mt19937_64 random(seed);
  const auto add = [&](const std::string& name, size_t n, float middle, float spread) {
    std::vector<float>& values = model.tensors[name];
    values.resize(n);
    for (float& value : values) value = FromHalf(ToHalf(middle + spread * Normal(random)));
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".weight", kHidden, 1.0f, 0.1f);
    add(name + ".bias", kHidden, 0.0f, 0.1f);
  };
  const auto linear = [&](const std::string& name, size_t rows, size_t columns) {
    add(name + ".weight", rows * columns, 0.0f, 0.04f);
    add(name + ".bias", rows, 0.0f, 0.1f);
  };
  add("embeddings.word_embeddings.weight", size_t{vocabulary} * kHidden, 0.0f, 0.05f);
  add("embeddings.position_embeddings.weight", size_t{kPositions} * kHidden, 0.0f, 0.02f);
  add("embeddings.token_type_embeddings.weight", 2 * kHidden, 0.0f, 0.02f);
  norm("embeddings.LayerNorm");
  for (uint32_t l = 0; l < layers; ++l) {
    const std::string at = fmt::format("encoder.layer.{}.", l);
    for (const char* part : {"query", "key", "value"}) {
      linear(at + "attention.self." + part, kHidden, kHidden);
    }
    linear(at + "attention.output.dense", kHidden, kHidden);
    norm(at + "attention.output.LayerNorm");
    linear(at + "intermediate.dense", kFfn, kHidden);
    linear(at + "output.dense", kHidden, kFfn);
    norm(at + "output.LayerNorm");
  }
  return model;
}

TokenBatch RandomBatch(const std::vector<size_t>& lengths, uint32_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  TokenBatch batch;
  for (const size_t length : lengths) {
    std::vector<uint32_t> ids(length);
    for (uint32_t& id : ids) id = static_cast<uint32_t>(random() % vocabulary);
    batch.Append(ids);
  }
  return batch;
}

double Cosine(const float* a, const float* b, size_t n) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return dot / std::sqrt(aa * bb);
}

double LargestDifference(const float* a, const float* b, size_t n) {
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace sprat::gpu
