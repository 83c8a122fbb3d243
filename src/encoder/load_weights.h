// A checkpoint as the source of an encoder's weights.
#ifndef SPRAT_ENCODER_LOAD_WEIGHTS_H_
#define SPRAT_ENCODER_LOAD_WEIGHTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "encoder/weights.h"
#include "model/safetensors.h"
#include "sprat/result.h"

namespace sprat {

// What checkpoints put before the names of BertModel's tensors.
inline constexpr std::string_view kTensorPrefixes[] = {"", "bert.", "model.", "0.auto_model."};

// The tensor of `file` that BertModel calls `name`: under any of kTensorPrefixes, and with
// LayerNorm parameters called weight and bias or, in old checkpoints, gamma and beta. nullptr if
// there is none.
const Tensor* FindEncoderTensor(const TensorFile& file, std::string_view name);

// Gives the tensors of `file`, which must outlive it and, since F32 tensors are viewed in place,
// the encoder. F16 and BF16 are converted, exactly. The pages of a tensor are released when the
// next one is asked for, those of the word embeddings never. Errors: kCorrupt for a missing tensor,
// naming it, the file and some names that exist, and for a wrong shape, naming tensor, file, the
// shape found and the one expected; kUnsupported for another type.
TensorSource SourceOf(const TensorFile& file);

}  // namespace sprat

#endif  // SPRAT_ENCODER_LOAD_WEIGHTS_H_
