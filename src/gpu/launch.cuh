// A kernel launch with the attributes this module uses.
#ifndef SPRAT_GPU_LAUNCH_CUH_
#define SPRAT_GPU_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <cstddef>

namespace sprat::gpu {

struct LaunchShape {
  dim3 grid;
  unsigned threads;
  size_t shared_bytes = 0;
  unsigned cluster = 1;      // blocks of a cluster, along x
  bool overlap = false;      // may start before the previous kernel of the stream is done
  bool cooperative = false;  // all blocks run at once, or the launch is refused
};

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                   const Arguments&... arguments) {
  cudaLaunchAttribute attributes[3] = {};
  unsigned n = 0;
  if (shape.overlap) {
    attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[n++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cooperative) {
    attributes[n].id = cudaLaunchAttributeCooperative;
    attributes[n++].val.cooperative = 1;
  }
  if (shape.cluster > 1) {
    attributes[n].id = cudaLaunchAttributeClusterDimension;
    attributes[n].val.clusterDim.x = shape.cluster;
    attributes[n].val.clusterDim.y = 1;
    attributes[n++].val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = n;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_LAUNCH_CUH_
