// A look at the values of weights, on request.
#ifndef SPRAT_ENGINE_WEIGHT_CHECK_H_
#define SPRAT_ENGINE_WEIGHT_CHECK_H_

#include <span>
#include <string_view>

#include "model/safetensors.h"
#include "sprat/result.h"

namespace sprat {

// kCorrupt naming file, tensor and element if one of `values` is NaN or infinite; `first` is the
// element that values[0] is.
Result<void> CheckFinite(const TensorFile& file, std::string_view tensor,
                         std::span<const float> values, size_t first = 0);

// The same for a whole tensor of type F32, F16 or BF16, read a megabyte at a time. Types without
// such values pass.
Result<void> CheckFinite(const TensorFile& file, std::string_view name, const Tensor& tensor);

}  // namespace sprat

#endif  // SPRAT_ENGINE_WEIGHT_CHECK_H_
