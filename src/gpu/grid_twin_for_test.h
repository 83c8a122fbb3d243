// The CPU twin of the single launch: walks grid_plan.h over the packed weights, block by block, as
// the kernel does, and fills the same exchanges. And what comes before and after the layers.
#ifndef SPRAT_GPU_GRID_TWIN_FOR_TEST_H_
#define SPRAT_GPU_GRID_TWIN_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/grid_plan.h"
#include "gpu/packing.h"
#include "model/config.h"
#include "sprat/result.h"

namespace sprat::gpu::grid {

// One copy of the exchanges of a query.
class ExchangeMemory {
 public:
  explicit ExchangeMemory(uint32_t tiles) : tiles_(tiles), words_(ExchangeWords(tiles), kUnset) {}

  uint32_t tiles() const { return tiles_; }
  std::vector<uint32_t>& words() { return words_; }
  float Get(Exchange exchange, uint32_t layer, uint32_t token, uint32_t column) const;
  void Set(Exchange exchange, uint32_t layer, uint32_t token, uint32_t column, float value);

 private:
  size_t WordAt(Exchange exchange, uint32_t layer, uint32_t token, uint32_t column) const;

  uint32_t tiles_;
  std::vector<uint32_t> words_;
};

// Token rows before the first layer, and the vector after the last: the parts of a query that the
// layers leave out.
struct Ends {
  std::vector<float> words, positions, type;  // row-major
  std::vector<float> gamma, beta;             // of the last LayerNorm
  float eps = 0;

  static Result<Ends> Read(const EncoderConfig& config, const ReadTensor& read);
  // kX of layer 0; rows past the ids are zero.
  void Start(std::span<const uint32_t> ids, ExchangeMemory& exchange) const;
  // Mean-pooled and normalised, from kX of layer `layers`.
  std::vector<float> Finish(const ExchangeMemory& exchange, uint32_t layers, uint32_t tokens) const;
};

class GridTwin {
 public:
  // weights: what PackLayers returned; must outlive the twin.
  GridTwin(std::span<const std::byte> weights, uint32_t layers, float eps)
      : weights_(weights), layers_(layers), eps_(eps) {}

  // From kX of layer 0 to kX of layer `layers`.
  // Numerics: as twin_for_test.h says, with sums in the order of grid_plan.h.
  void Run(uint32_t tokens, ExchangeMemory& exchange) const;

 private:
  // A block's work on one layer.
  struct Task {
    const std::byte* stage;
    Assignment assignment;
    uint32_t layer;
  };
  struct Moments {
    float mean;
    float scale;
  };

  float Product(const Task& task, const grid::Product& product, size_t fragments_at, uint32_t row,
                Exchange from, uint32_t token, const ExchangeMemory& exchange) const;
  Moments MomentsOf(Exchange from, uint32_t layer, uint32_t token,
                    const ExchangeMemory& exchange) const;
  float FoldedProduct(const Task& task, const grid::Product& product, uint32_t row, Exchange from,
                      uint32_t token, const ExchangeMemory& exchange) const;
  void Attend(const Task& task, uint32_t tokens, ExchangeMemory& exchange) const;
  void Up(const Task& task, ExchangeMemory& exchange) const;
  // Both products of an output block; `raw`: its columns' sums as it keeps them, [token][column].
  void Output(const Task& task, bool down, std::vector<float>& raw, ExchangeMemory& exchange) const;

  std::span<const std::byte> weights_;
  uint32_t layers_;
  float eps_;
};

}  // namespace sprat::gpu::grid

#endif  // SPRAT_GPU_GRID_TWIN_FOR_TEST_H_
