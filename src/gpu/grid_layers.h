// The layers of one short query in one launch (grid_plan.h).
#ifndef SPRAT_GPU_GRID_LAYERS_H_
#define SPRAT_GPU_GRID_LAYERS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/grid_plan.h"

namespace sprat::gpu::grid {

struct GridArguments {
  const std::byte* weights;  // PackLayers, in device memory
  uint32_t* exchange;        // ExchangeWords(tiles) words, all kUnset but kX of layer 0: the input
  uint32_t* other;           // the copy that the launch before used: everything but its kX of layer
                             // 0 is unset for the launch after
  uint32_t* failure;         // not 0 afterwards: 1 + the block whose wait expired
  uint32_t tokens;           // T, 1 to 16
  uint32_t layers;           // 1 to kMostLayers
  float eps;
};

// Enqueues the layers on `stream`; kX of layer `layers` is the result. A block waits for others, so
// all must run at once: the launch is cooperative, and refused where they cannot. Every wait is
// bounded (about a second); one that expires is reported and the results mean nothing.
cudaError_t LaunchLayers(const GridArguments& arguments, cudaStream_t stream);

// Once a device. cudaErrorNotSupported where blocks or shared memory do not suffice.
cudaError_t PrepareLayers(int device);

}  // namespace sprat::gpu::grid

#endif  // SPRAT_GPU_GRID_LAYERS_H_
