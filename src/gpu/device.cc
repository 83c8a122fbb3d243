#include "gpu/device.h"

#include <fmt/format.h>

#include <cstring>

namespace sprat::gpu {

Result<void> Check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return {};
  cudaGetLastError();
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  return Error(
      code, fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

Result<DeviceBuffer> AllocateDevice(size_t size_bytes) {
  void* memory = nullptr;
  Result<void> done = Check(cudaMalloc(&memory, size_bytes),
                            fmt::format("allocating {} bytes of device memory", size_bytes));
  if (!done.ok()) return std::move(done.error());
  DeviceBuffer buffer(static_cast<std::byte*>(memory));
  done = Check(cudaMemset(memory, 0, size_bytes), "clearing device memory");
  if (done.ok()) done = Check(cudaStreamSynchronize(cudaStreamLegacy), "clearing device memory");
  if (!done.ok()) return std::move(done.error());
  return buffer;
}

Result<void> Upload(void* to, const void* from, size_t size_bytes, std::string_view what) {
  Result<void> done = Check(cudaMemcpy(to, from, size_bytes, cudaMemcpyHostToDevice), what);
  return done.ok() ? Check(cudaStreamSynchronize(cudaStreamLegacy), what) : done;
}

Result<PinnedBuffer> AllocatePinned(size_t size_bytes) {
  void* memory = nullptr;
  Result<void> done = Check(cudaHostAlloc(&memory, size_bytes, cudaHostAllocDefault),
                            fmt::format("allocating {} bytes of pinned memory", size_bytes));
  if (!done.ok()) return std::move(done.error());
  std::memset(memory, 0, size_bytes);
  return PinnedBuffer(static_cast<std::byte*>(memory));
}

Result<Stream> CreateStream() {
  cudaStream_t stream = nullptr;
  Result<void> done =
      Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a CUDA stream");
  if (!done.ok()) return std::move(done.error());
  return Stream(stream);
}

Result<Event> CreateEvent() {
  cudaEvent_t event = nullptr;
  Result<void> done = Check(cudaEventCreate(&event), "creating a CUDA event");
  if (!done.ok()) return std::move(done.error());
  return Event(event);
}

Result<void> UseDevice(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice || count == 0) {
    cudaGetLastError();
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return Error(ErrorCode::kDevice,
                 fmt::format("no CUDA device: {}", driver == 0 ? "no NVIDIA driver is installed"
                                                               : cudaGetErrorString(status)));
  }
  Result<void> done = Check(status, "looking for CUDA devices");
  if (!done.ok()) return done;
  if (index < 0 || index >= count) {
    return Error(ErrorCode::kDevice,
                 fmt::format("no CUDA device {}: {} found, numbered from 0", index, count));
  }
  return Check(cudaSetDevice(index), fmt::format("using CUDA device {}", index));
}

}  // namespace sprat::gpu
