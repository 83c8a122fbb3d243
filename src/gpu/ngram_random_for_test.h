// Random table rows, made on the device: large models need not be sent there.
#ifndef SPRAT_GPU_NGRAM_RANDOM_FOR_TEST_H_
#define SPRAT_GPU_NGRAM_RANDOM_FOR_TEST_H_

#include <cstddef>
#include <cstdint>

#include "gpu/device.h"

namespace sprat::gpu {

// The same seed gives the same values. bf16: uniform in [-scale, scale); E4M3: any code but NaN.
Result<void> FillBf16(uint16_t* values, size_t count, float scale, uint64_t seed);
Result<void> FillE4m3(uint8_t* codes, size_t count, uint64_t seed);
Result<void> FillFloat(float* values, size_t count, float low, float high, uint64_t seed);
// Tokens below `vocabulary`.
Result<void> FillTokens(uint32_t* tokens, size_t count, uint32_t vocabulary, uint64_t seed);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_RANDOM_FOR_TEST_H_
