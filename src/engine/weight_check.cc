#include "engine/weight_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/tensor_pieces.h"

namespace sprat {

Result<void> CheckFinite(const TensorFile& file, std::string_view tensor,
                         std::span<const float> values, size_t first) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return {};
  const size_t element = first + static_cast<size_t>(bad - values.begin());
  return Error(ErrorCode::kCorrupt, file.path().string() + ": tensor '" + std::string(tensor) +
                                        "': element " + std::to_string(element) + " is " +
                                        (std::isnan(*bad) ? "NaN" : "infinite"));
}

Result<void> CheckFinite(const TensorFile& file, std::string_view name, const Tensor& tensor) {
  if (tensor.dtype == DType::kI8) return {};
  std::vector<float> values;
  return ForEachPiece(file, tensor, [&](const Tensor& piece, size_t first) -> Result<void> {
    values.resize(piece.elements());
    Result<void> copied = CopyAsF32(piece, values);
    return copied.ok() ? CheckFinite(file, name, values, first) : copied;
  });
}

}  // namespace sprat
