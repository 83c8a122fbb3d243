// A model's layers in the form in which the single launch reads them.
#ifndef SPRAT_GPU_GRID_PACKING_H_
#define SPRAT_GPU_GRID_PACKING_H_

#include "base/buffer.h"
#include "gpu/grid_plan.h"
#include "gpu/packing.h"
#include "model/config.h"
#include "sprat/result.h"

namespace sprat::gpu::grid {

// All layers of `config`, at most kMostLayers, as grid_plan.h lays them out; blocks and stages that
// have no layer are zero. Sums for folding are taken in double. Errors: as PackWeights, also for a
// weight that is beyond f16 once it is folded; kUnsupported for more layers.
Result<ByteBuffer> PackLayers(const EncoderConfig& config, const ReadTensor& read);

}  // namespace sprat::gpu::grid

#endif  // SPRAT_GPU_GRID_PACKING_H_
