// CUDA's resources as types that free them once, and its errors as Results.
#ifndef SPRAT_GPU_DEVICE_H_
#define SPRAT_GPU_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <type_traits>

#include "sprat/result.h"

namespace sprat::gpu {

// Success, or kOutOfMemory or kDevice: "<what>: <CUDA's words>". Clears CUDA's last error, so that
// one that is not sticky does not show up in a later call.
Result<void> Check(cudaError_t status, std::string_view what);

struct FreeDevice {
  void operator()(std::byte* p) const noexcept { cudaFree(p); }
};
struct FreePinned {
  void operator()(std::byte* p) const noexcept { cudaFreeHost(p); }
};
struct DestroyStream {
  void operator()(cudaStream_t s) const noexcept { cudaStreamDestroy(s); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t e) const noexcept { cudaEventDestroy(e); }
};
struct DestroyGraph {
  void operator()(cudaGraph_t g) const noexcept { cudaGraphDestroy(g); }
};
struct DestroyGraphExec {
  void operator()(cudaGraphExec_t g) const noexcept { cudaGraphExecDestroy(g); }
};

using DeviceBuffer = std::unique_ptr<std::byte[], FreeDevice>;  // device memory
using PinnedBuffer =
    std::unique_ptr<std::byte[], FreePinned>;  // host memory that a kernel can reach
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraphExec>;

// Zeroed when it returns, for every stream: those of CreateStream do not wait for CUDA's default
// stream, where memory is cleared and copied. Errors: kOutOfMemory, naming the size.
Result<DeviceBuffer> AllocateDevice(size_t size_bytes);
// Copies from host memory to device memory; complete when it returns, for every stream.
Result<void> Upload(void* to, const void* from, size_t size_bytes, std::string_view what);
Result<PinnedBuffer> AllocatePinned(size_t size_bytes);
Result<Stream> CreateStream();
Result<Event> CreateEvent();  // with timing

// Makes device `index` the calling thread's. Errors: kDevice if there is no driver, no device or
// not this one; the message says which, and what was found.
Result<void> UseDevice(int index);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_DEVICE_H_
