#include "gpu/grid_packing.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gpu/half.h"

namespace sprat::gpu::grid {
namespace {

constexpr float kLargestHalf{65504.0f};

using Values = std::vector<float>;

struct Linear {
  Values weight;  // (rows, columns)
  Values bias;
};
struct Norm {
  Values gamma;
  Values beta;
};
struct LayerTensors {
  Norm before;  // the LayerNorm in front of the layer
  Linear query, key, value, out;
  Norm norm;  // after attention
  Linear up, down;
};

Result<Values> Read(const ReadTensor& read, const std::string& name,
                    const std::vector<uint64_t>& shape) {
  size_t n = 1;
  for (const uint64_t dimension : shape) n *= dimension;
  Values values(n);
  Result<void> done = read(name, shape, values);
  if (!done.ok()) return std::move(done.error());
  return values;
}

Result<void> ReadLinear(const ReadTensor& read, const std::string& name, Matrix matrix,
                        Linear& out) {
  const uint64_t rows = matrix == Matrix::kQkv ? kHidden : Rows(matrix);
  Result<Values> weight = Read(read, name + ".weight", {rows, Columns(matrix)});
  if (!weight.ok()) return std::move(weight.error());
  Result<Values> bias = Read(read, name + ".bias", {rows});
  if (!bias.ok()) return std::move(bias.error());
  out = {std::move(weight).value(), std::move(bias).value()};
  return {};
}

Result<void> ReadNorm(const ReadTensor& read, const std::string& name, Norm& out) {
  Result<Values> gamma = Read(read, name + ".weight", {kHidden});
  if (!gamma.ok()) return std::move(gamma.error());
  Result<Values> beta = Read(read, name + ".bias", {kHidden});
  if (!beta.ok()) return std::move(beta.error());
  out = {std::move(gamma).value(), std::move(beta).value()};
  return {};
}

Result<LayerTensors> ReadLayer(const ReadTensor& read, uint32_t layer) {
  LayerTensors t;
  const auto name = [](uint32_t l, std::string_view part) {
    return fmt::format("encoder.layer.{}.{}", l, part);
  };
  Result<void> done = ReadNorm(
      read, layer == 0 ? "embeddings.LayerNorm" : name(layer - 1, "output.LayerNorm"), t.before);
  if (done.ok()) {
    done = ReadNorm(read, name(layer, "attention.output.LayerNorm"), t.norm);
  }
  const std::pair<std::string_view, std::pair<Matrix, Linear*>> linears[] = {
      {"attention.self.query", {Matrix::kQkv, &t.query}},
      {"attention.self.key", {Matrix::kQkv, &t.key}},
      {"attention.self.value", {Matrix::kQkv, &t.value}},
      {"attention.output.dense", {Matrix::kOut, &t.out}},
      {"intermediate.dense", {Matrix::kUp, &t.up}},
      {"output.dense", {Matrix::kDown, &t.down}}};
  for (const auto& [part, target] : linears) {
    if (done.ok()) done = ReadLinear(read, name(layer, part), target.first, *target.second);
  }
  if (!done.ok()) return std::move(done.error());
  return t;
}

Error BeyondHalf(float value) {
  return Error(ErrorCode::kUnsupported,
               fmt::format("a weight times its LayerNorm's is {}, beyond the range of f16 (65504) "
                           "that the GPU uses",
                           value));
}

// 16 x 16 values, `stride` apart from row to row, as one fragment.
Result<void> PackFragment(const float* values, uint32_t stride, std::byte* fragment) {
  for (uint32_t i = 0; i < kFragment * kFragment; ++i) {
    const uint32_t row = i / kFragment, column = i % kFragment;
    const float value = values[size_t{row} * stride + column];
    if (!(std::abs(value) <= kLargestHalf)) return BeyondHalf(value);
    const uint16_t half = ToHalf(value);
    std::memcpy(fragment + 2 * FragmentOffset(row, column), &half, sizeof half);
  }
  return {};
}

// Rows of a matrix as the fragments of `product` at `fragments`.
Result<void> PackFragments(const Values& rows, const Product& product, std::byte* fragments) {
  const uint32_t columns = product.Columns();
  for (uint32_t warp = 0; warp < kWarps; ++warp) {
    for (uint32_t i = 0; i < product.tiles * product.steps; ++i) {
      const uint32_t tile = i / product.steps, step = i % product.steps;
      const size_t row = size_t{product.Tile(warp, tile)} * kFragment;
      const float* values = rows.data() + row * columns + product.Step(warp, step) * kFragment;
      std::byte* to = fragments + size_t{product.FragmentAt(warp, tile, step)} * kFragmentBytes;
      const Result<void> packed = PackFragment(values, columns, to);
      if (!packed.ok()) return packed;
    }
  }
  return {};
}

// Appends rows [first, first + count) of `linear`, with `norm` folded in and times `scale`.
void Fold(const Linear& linear, const Norm& norm, uint32_t first, uint32_t count, double scale,
          Values& rows, std::vector<FoldedRow>& constants) {
  for (uint32_t row = first; row < first + count; ++row) {
    double sum = 0, bias = static_cast<double>(linear.bias[row]);
    for (uint32_t k = 0; k < kHidden; ++k) {
      const double weight = static_cast<double>(linear.weight[size_t{row} * kHidden + k]);
      const float folded = static_cast<float>(weight * static_cast<double>(norm.gamma[k]) * scale);
      sum += static_cast<double>(FromHalf(ToHalf(folded)));
      bias += weight * static_cast<double>(norm.beta[k]);
      rows.push_back(folded);
    }
    constants.push_back({static_cast<float>(sum), static_cast<float>(bias * scale)});
  }
}

Result<void> PackAttention(const LayerTensors& t, uint32_t head, std::byte* stage) {
  const double scale = std::log2(std::exp(1.0)) / std::sqrt(static_cast<double>(kHead));
  Values rows;
  std::vector<FoldedRow> constants;
  Fold(t.query, t.before, head * kHead, kHead, scale, rows, constants);
  Fold(t.key, t.before, head * kHead, kHead, 1, rows, constants);
  Fold(t.value, t.before, head * kHead, kHead, 1, rows, constants);
  std::memcpy(stage + StageConstantsAt(Role::kAttention), constants.data(),
              constants.size() * sizeof(FoldedRow));
  return PackFragments(rows, kQkvProduct, stage);
}

Result<void> PackUp(const LayerTensors& t, uint32_t strip, std::byte* stage) {
  Values rows;
  std::vector<FoldedRow> constants;
  Fold(t.up, t.norm, strip * kUpColumns, kUpColumns, 1, rows, constants);
  std::memcpy(stage + StageConstantsAt(Role::kUp), constants.data(),
              constants.size() * sizeof(FoldedRow));
  return PackFragments(rows, kUpProduct, stage);
}

Result<void> PackOutput(const LayerTensors& t, uint32_t strip, std::byte* stage) {
  std::byte* constants = stage + StageConstantsAt(Role::kOutput);
  const auto pack = [&](const Linear& linear, const Norm& norm, const Product& product,
                        std::byte* fragments) -> Result<void> {
    const size_t first = size_t{strip} * kOutputColumns, columns = product.Columns();
    for (size_t i = first; i < first + kOutputColumns; ++i) {
      const ResidualColumn column{linear.bias[i], norm.gamma[i], norm.beta[i], 0};
      std::memcpy(constants, &column, sizeof column);
      constants += sizeof column;
    }
    const auto begin = linear.weight.begin() + static_cast<ptrdiff_t>(first * columns);
    return PackFragments(Values(begin, begin + static_cast<ptrdiff_t>(kOutputColumns * columns)),
                         product, fragments);
  };
  Result<void> packed = pack(t.out, t.before, kOutProduct, stage);
  if (!packed.ok()) return packed;
  return pack(t.down, t.norm, kDownProduct, stage + kOutProduct.Fragments() * kFragmentBytes);
}

Result<void> PackLayer(const LayerTensors& t, uint32_t layer, std::byte* weights) {
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const Assignment assignment = AssignmentOf(block);
    for (uint32_t stage = 0; stage < assignment.Stages(); ++stage) {
      if (assignment.Layer(stage) != layer) continue;
      std::byte* at = weights + StageAt(block, stage);
      const Result<void> packed =
          assignment.role == Role::kAttention ? PackAttention(t, assignment.part, at)
          : assignment.role == Role::kUp      ? PackUp(t, assignment.part, at)
                                              : PackOutput(t, assignment.part, at);
      if (!packed.ok()) return packed;
    }
  }
  return {};
}

}  // namespace

Result<ByteBuffer> PackLayers(const EncoderConfig& config, const ReadTensor& read) {
  Result<void> done = CheckShape(config);
  if (!done.ok()) return std::move(done.error());
  if (config.layers > kMostLayers) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("num_hidden_layers {}: the single launch is built for at most {}",
                             config.layers, kMostLayers));
  }
  Result<ByteBuffer> weights = ByteBuffer::Allocate(kWeightBytes);
  if (!weights.ok()) return weights;
  std::memset(weights.value().begin(), 0, kWeightBytes);
  for (uint32_t layer = 0; layer < config.layers && done.ok(); ++layer) {
    Result<LayerTensors> tensors = ReadLayer(read, layer);
    done = tensors.ok() ? PackLayer(tensors.value(), layer, weights.value().begin())
                        : Result<void>(std::move(tensors.error()));
  }
  if (!done.ok()) return std::move(done.error()).In("packing weights for the GPU");
  return weights;
}

}  // namespace sprat::gpu::grid
