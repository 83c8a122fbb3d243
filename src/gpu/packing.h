// A model's weights in the form and order in which the GPU reads them.
#ifndef SPRAT_GPU_PACKING_H_
#define SPRAT_GPU_PACKING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "gpu/plan.h"
#include "model/config.h"
#include "sprat/result.h"

namespace sprat::gpu {

// Reads the tensor that BertModel calls `name` ("encoder.layer.0.output.dense.bias") as f32 into
// `out`, row-major, after checking that it has this shape.
using ReadTensor = std::function<Result<void>(
    std::string_view name, std::span<const uint64_t> shape, std::span<float> out)>;

// Writes the (rows, columns) row-major matrix `values` to `panels` as f16 in panels: row i becomes
// row first_row + i of a matrix of `panel_rows` rows.
struct PanelPlace {
  size_t rows;
  size_t columns;
  size_t first_row = 0;
  size_t panel_rows;
};
void PackPanels(std::span<const float> values, const PanelPlace& place, std::span<uint16_t> panels);

// Every weight that the encoder uses, laid out as WeightLayout says. Position rows have token type
// 0 added in f32 before they become f16. A value beyond f16's range (65,504) is kUnsupported,
// naming the tensor: it would be infinite. Errors also: the reader's, CheckShape's, kOutOfMemory.
Result<ByteBuffer> PackWeights(const EncoderConfig& config, const ReadTensor& read);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_PACKING_H_
