// Stands in for graph_path.cc in a build without nvcc.
#include "gpu/gpu_encoder.h"

namespace sprat::gpu {
namespace {
Error Absent() {
  return Error(ErrorCode::kDevice,
               "no CUDA device: this build has no CUDA parts (nvcc was not found)");
}
}  // namespace

Result<std::string> DescribeDevice(int /*device*/) { return Absent(); }

Result<std::unique_ptr<GpuEncoder>> OpenGpuEncoder(const EncoderConfig& /*config*/,
                                                   const ReadTensor& /*read*/,
                                                   const GpuOptions& /*options*/) {
  return Absent();
}

}  // namespace sprat::gpu
