#include "engine/weight_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

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
  constexpr size_t kChunkElements{size_t{1} << 18};
  if (tensor.dtype == DType::kI8) return {};
  std::vector<float> values;
  for (size_t first = 0; first < tensor.elements(); first += kChunkElements) {
    const size_t count = std::min<size_t>(kChunkElements, tensor.elements() - first);
    const size_t element_bytes = ElementBytes(tensor.dtype);
    const Tensor chunk{.dtype = tensor.dtype,
                       .shape = {count},
                       .bytes = tensor.bytes.subspan(first * element_bytes, count * element_bytes)};
    values.resize(count);
    Result<void> copied = CopyAsF32(chunk, values);
    if (!copied.ok()) return copied;
    Result<void> finite = CheckFinite(file, name, values, first);
    if (!finite.ok()) return finite;
    file.Release(chunk);
  }
  return {};
}

}  // namespace sprat
