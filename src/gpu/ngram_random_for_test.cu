#include <cuda_bf16.h>

#include "gpu/launch.cuh"
#include "gpu/ngram_random_for_test.h"

namespace sprat::gpu {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
__device__ uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
__device__ float Uniform(uint64_t x) { return static_cast<float>(Mix(x) >> 40) * 0x1p-24f; }

template <typename T, typename Draw>
__global__ void Fill(T* values, size_t count, Draw draw) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    values[i] = draw(i);
  }
}

template <typename T, typename Draw>
Result<void> RunFill(T* values, size_t count, Draw draw) {
  Fill<<<1024, 256>>>(values, count, draw);
  Result<void> done = Check(cudaGetLastError(), "drawing random values");
  return done.ok() ? Check(cudaDeviceSynchronize(), "drawing random values") : std::move(done);
}

}  // namespace

Result<void> FillBf16(uint16_t* values, size_t count, float scale, uint64_t seed) {
  return RunFill(values, count, [=] __device__(size_t i) {
    return __bfloat16_as_ushort(__float2bfloat16_rn((2 * Uniform(seed << 40 ^ i) - 1) * scale));
  });
}

Result<void> FillE4m3(uint8_t* codes, size_t count, uint64_t seed) {
  return RunFill(codes, count, [=] __device__(size_t i) {
    const auto code = static_cast<uint8_t>(Mix(seed << 40 ^ i));
    return static_cast<uint8_t>((code & 0x7f) == 0x7f ? code ^ 1 : code);
  });
}

Result<void> FillFloat(float* values, size_t count, float low, float high, uint64_t seed) {
  return RunFill(values, count,
                 [=] __device__(size_t i) { return low + (high - low) * Uniform(seed << 40 ^ i); });
}

Result<void> FillTokens(uint32_t* tokens, size_t count, uint32_t vocabulary, uint64_t seed) {
  return RunFill(tokens, count, [=] __device__(size_t i) {
    return static_cast<uint32_t>(Mix(seed << 40 ^ i) % vocabulary);
  });
}

}  // namespace sprat::gpu
