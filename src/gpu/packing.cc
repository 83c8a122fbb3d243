#include "gpu/packing.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gpu/half.h"

namespace sprat::gpu {
namespace {

constexpr float kLargestHalf{65504.0f};

// Reads tensors into one reused array and writes them to their places.
class Packer {
 public:
  Packer(const ReadTensor& read, std::byte* weights) : read_(read), weights_(weights) {}

  // (rows, H) as f16, row-major, at `at`; `added` (H values or none) is added to every row first.
  Result<void> HalfRows(const std::string& name, uint64_t rows, size_t at,
                        std::span<const float> added = {}) {
    const Result<void> read = Read(name, {rows, kHidden});
    if (!read.ok()) return read;
    uint16_t* out = reinterpret_cast<uint16_t*>(weights_ + at);
    for (size_t i = 0; i < values_.size(); ++i) {
      out[i] = ToHalf(added.empty() ? values_[i] : values_[i] + added[i % kHidden]);
    }
    return {};
  }

  // A (rows, columns) matrix as rows first_row.. of the panels of `matrix` at `at`.
  Result<void> Panels(const std::string& name, uint64_t rows, Matrix matrix, uint64_t first_row,
                      size_t at) {
    const Result<void> read = Read(name, {rows, Columns(matrix)});
    if (!read.ok()) return read;
    PackPanels(
        values_,
        {.rows = rows,
         .columns = Columns(matrix),
         .first_row = first_row,
         .panel_rows = Rows(matrix)},
        {reinterpret_cast<uint16_t*>(weights_ + at), size_t{Rows(matrix)} * Columns(matrix)});
    return {};
  }

  Result<void> Vector(const std::string& name, uint64_t n, size_t at) {
    const uint64_t shape[] = {n};
    return read_(name, shape, {reinterpret_cast<float*>(weights_ + at), n});
  }

  Result<void> Norm(const std::string& name, size_t at) {
    const Result<void> gamma = Vector(name + ".weight", kHidden, at);
    if (!gamma.ok()) return gamma;
    return Vector(name + ".bias", kHidden, at + kHidden * sizeof(float));
  }

  Result<void> Read(const std::string& name, const std::vector<uint64_t>& shape) {
    size_t n = 1;
    for (const uint64_t dimension : shape) n *= dimension;
    values_.resize(n);
    const Result<void> read = read_(name, shape, values_);
    if (!read.ok()) return read;
    for (const float value : values_) {
      if (std::abs(value) > kLargestHalf) {
        return Error(ErrorCode::kUnsupported,
                     fmt::format("{} holds {}, beyond the range of f16 (65504) that the GPU uses",
                                 name, value));
      }
    }
    return {};
  }

  std::span<const float> values() const { return values_; }

 private:
  const ReadTensor& read_;
  std::byte* weights_;
  std::vector<float> values_;
};

// A matrix of one layer: its parts stacked one below the other, and their biases.
Result<void> PackMatrix(Packer& packer, const WeightLayout& layout, uint32_t layer, Matrix matrix,
                        std::span<const std::string_view> parts) {
  const uint32_t rows = Rows(matrix) / static_cast<uint32_t>(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name = fmt::format("encoder.layer.{}.{}", layer, parts[i]);
    Result<void> packed =
        packer.Panels(name + ".weight", rows, matrix, i * rows, layout.MatrixAt(layer, matrix));
    if (!packed.ok()) return packed;
    packed = packer.Vector(name + ".bias", rows,
                           layout.BiasAt(layer, matrix) + i * rows * sizeof(float));
    if (!packed.ok()) return packed;
  }
  return {};
}

// The tensors of BertLayer in Hugging Face transformers.
Result<void> PackLayer(Packer& packer, const WeightLayout& layout, uint32_t layer) {
  constexpr std::string_view kQkvParts[] = {"attention.self.query", "attention.self.key",
                                            "attention.self.value"};
  constexpr std::string_view kOutParts[] = {"attention.output.dense"};
  constexpr std::string_view kUpParts[] = {"intermediate.dense"};
  constexpr std::string_view kDownParts[] = {"output.dense"};
  const std::pair<Matrix, std::span<const std::string_view>> matrices[] = {
      {Matrix::kQkv, kQkvParts},
      {Matrix::kOut, kOutParts},
      {Matrix::kUp, kUpParts},
      {Matrix::kDown, kDownParts}};
  for (const auto& [matrix, parts] : matrices) {
    Result<void> packed = PackMatrix(packer, layout, layer, matrix, parts);
    if (!packed.ok()) return packed;
  }
  Result<void> packed =
      packer.Norm(fmt::format("encoder.layer.{}.attention.output.LayerNorm", layer),
                  layout.NormAt(2 * layer + 1));
  if (!packed.ok()) return packed;
  return packer.Norm(fmt::format("encoder.layer.{}.output.LayerNorm", layer),
                     layout.NormAt(2 * layer + 2));
}

Result<void> PackEmbeddings(Packer& packer, const WeightLayout& layout,
                            const EncoderConfig& config) {
  Result<void> packed =
      packer.HalfRows("embeddings.word_embeddings.weight", config.vocabulary, layout.WordsAt());
  if (!packed.ok()) return packed;
  packed = packer.Read("embeddings.token_type_embeddings.weight", {config.token_types, kHidden});
  if (!packed.ok()) return packed;
  const std::vector<float> type(packer.values().begin(), packer.values().begin() + kHidden);
  packed = packer.HalfRows("embeddings.position_embeddings.weight", config.positions,
                           layout.PositionsAt(), type);
  if (!packed.ok()) return packed;
  return packer.Norm("embeddings.LayerNorm", layout.NormAt(0));
}

}  // namespace

void PackPanels(std::span<const float> values, const PanelPlace& place,
                std::span<uint16_t> panels) {
  for (size_t row = 0; row < place.rows; ++row) {
    for (size_t column = 0; column < place.columns; ++column) {
      panels[PanelOffset(place.first_row + row, column, place.panel_rows)] =
          ToHalf(values[row * place.columns + column]);
    }
  }
}

Result<ByteBuffer> PackWeights(const EncoderConfig& config, const ReadTensor& read) {
  const Result<void> shape = CheckShape(config);
  if (!shape.ok()) return shape.error();
  const WeightLayout layout{
      .vocabulary = config.vocabulary, .positions = config.positions, .layers = config.layers};
  Result<ByteBuffer> weights = ByteBuffer::Allocate(layout.Bytes());
  if (!weights.ok()) return weights;
  Packer packer(read, weights.value().begin());
  Result<void> packed = PackEmbeddings(packer, layout, config);
  for (uint32_t layer = 0; layer < config.layers && packed.ok(); ++layer) {
    packed = PackLayer(packer, layout, layer);
  }
  if (!packed.ok()) return std::move(packed.error()).In("packing weights for the GPU");
  return weights;
}

}  // namespace sprat::gpu
