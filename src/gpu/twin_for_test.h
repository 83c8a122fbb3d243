// The CPU twin: walks the plan of the graph path over the packed weights, step by step, as the
// kernels do. Slow and plain. What it shares with the kernels is the plan alone.
#ifndef SPRAT_GPU_TWIN_FOR_TEST_H_
#define SPRAT_GPU_TWIN_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/plan.h"
#include "gpu/request.h"
#include "model/config.h"

namespace sprat::gpu {

class Twin {
 public:
  // weights: what PackWeights returned for `config`; must outlive the twin.
  Twin(const EncoderConfig& config, Pooling pooling, std::span<const std::byte> weights);

  // The vectors of `batch`, which must fit one piece: B rows of H.
  // Numerics: f16 operands; a dot product adds the exact sum of 16 products at a time to an f32
  // accumulator, columns from the left; LayerNorm, softmax and the residual in f32 in the order of
  // plan.h.
  std::vector<float> Embed(const TokenBatch& batch, Path path, const ResultForm& form);

 private:
  struct Panels {
    size_t columns = 0;
    std::vector<uint16_t> values;
  };

  float At(const Panels& panels, size_t row, size_t column) const;
  void Set(Panels& panels, size_t row, size_t column, float value) const;
  Panels& Operand(Buffer buffer);
  const uint16_t* Halves(size_t at) const;
  const float* Floats(size_t at) const;

  void Run(const Step& step);
  void EmbedRows(bool to_sum);
  void NormaliseInto(std::vector<float>& rows, uint32_t norm) const;
  void AddProducts(const Panels& in, const Step& step, std::vector<float>& sums) const;
  void Linear(const Step& step, const Panels& in, Panels& out, bool gelu);
  void LinearResidual(const Step& step, std::vector<float>& out);
  void StateToOperand();
  void Attend();
  void AttendRow(const AttentionItem& item, uint32_t head, uint32_t row);
  float PoolColumn(const std::vector<float>& rows, uint32_t first, uint32_t length,
                   uint32_t c) const;
  void PoolRows(const std::vector<float>& rows);

  EncoderConfig config_;
  WeightLayout layout_;
  Pooling pooling_;
  std::span<const std::byte> weights_;
  uint32_t tokens_ = 0;
  RequestLayout request_layout_{};
  std::vector<std::byte> request_;
  std::vector<float> sum_, state_, result_;
  Panels operand_, qkv_, context_, inner_;
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_TWIN_FOR_TEST_H_
