// The kernels of the tile path: wgmma on 128-token tiles, compute capability 9.0 only.
#ifndef SPRAT_GPU_TILE_KERNELS_H_
#define SPRAT_GPU_TILE_KERNELS_H_

#include <cuda_runtime_api.h>

#include "gpu/row_kernels.h"

namespace sprat::gpu {

// Enqueues one step of the tile path. Reads whole tiles: rows past T must exist in every buffer.
cudaError_t LaunchTileStep(const Step& step, const LaunchContext& context);

// Once a device: lets the kernels have the shared memory they need, and loads them.
cudaError_t PrepareTileKernels();

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_TILE_KERNELS_H_
