// The encoder in double precision, written to be read: what the fast one is compared with.
#ifndef SPRAT_ENCODER_REFERENCE_FOR_TEST_H_
#define SPRAT_ENCODER_REFERENCE_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "encoder/weights.h"
#include "model/config.h"
#include "model/model_writer_for_test.h"

namespace sprat {

// A model's tensors by the names of BertModel.
class ReferenceEncoder {
 public:
  ReferenceEncoder(const EncoderConfig& config, std::vector<TestTensor> tensors);

  // A sequence's tokens, S rows of H, after the embeddings and `layers` layers.
  std::vector<std::vector<double>> Tokens(std::span<const uint32_t> ids, size_t layers) const;

  // The pooled and normalised vector.
  std::vector<double> Embed(std::span<const uint32_t> ids, Pooling pooling) const;

  // The same tensors for Encoder::Create; valid as long as this object.
  TensorSource Source() const;

 private:
  const std::vector<float>& Values(const std::string& name) const;
  std::vector<double> Linear(const std::string& name, const std::vector<double>& x) const;
  void AddLayerNorm(const std::string& name, const std::vector<double>& y,
                    std::vector<double>& x) const;
  void Layer(const std::string& name, std::vector<std::vector<double>>& x) const;

  EncoderConfig config_;
  std::map<std::string, TestTensor, std::less<>> tensors_;
};

}  // namespace sprat

#endif  // SPRAT_ENCODER_REFERENCE_FOR_TEST_H_
