// The weights of a BERT-family encoder, packed for a kernel table.
#ifndef SPRAT_ENCODER_WEIGHTS_H_
#define SPRAT_ENCODER_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/matrix_view.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "sprat/result.h"

namespace sprat {

struct NormWeights {
  const float* gamma;  // H
  const float* beta;   // H
};

// BertLayer in Hugging Face transformers.
struct LayerWeights {
  PackedWeights qkv;  // (3H, H): query, key and value, one below the other
  PackedWeights out;  // (H, H)
  NormWeights norm1;
  PackedWeights up;    // (F, H)
  PackedWeights down;  // (H, F)
  NormWeights norm2;
};

struct EncoderWeights {
  MatrixView<const float> words;      // (V, H), may view the source
  MatrixView<const float> positions;  // (positions, H): position i plus token type 0
  NormWeights norm;                   // of the embeddings
  std::vector<LayerWeights> layers;   // L

  ByteBuffer arena;       // everything but a viewed `words`, in the order of execution
  size_t size_bytes = 0;  // all of it, `words` included
  size_t parameters = 0;  // values used, as published
};

// A tensor of a checkpoint as f32.
struct SourceTensor {
  std::span<const float> values;  // row-major, valid until the source is asked for the next one
  bool stays = false;             // valid as long as the source's owner
};

// Finds a tensor by the name that BertModel gives it ("encoder.layer.0.output.dense.bias") and
// checks its shape.
using TensorSource =
    std::function<Result<SourceTensor>(std::string_view name, std::span<const uint64_t> shape)>;

// Reads every tensor that the encoder uses, once, in the order of execution, and packs it for
// `kernels` on all threads of `pool`. Errors: the source's, kOutOfMemory.
Result<EncoderWeights> PackEncoderWeights(const EncoderConfig& config, const Kernels& kernels,
                                          const TensorSource& source, ThreadPool& pool);

}  // namespace sprat

#endif  // SPRAT_ENCODER_WEIGHTS_H_
