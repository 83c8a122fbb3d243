// Golden vectors: lines of JSON with "ids" and "vector_f32le" (base64), from the reference.
#ifndef SPRAT_GPU_GOLDEN_FOR_TEST_H_
#define SPRAT_GPU_GOLDEN_FOR_TEST_H_

#include <cstdint>
#include <filesystem>
#include <vector>

#include "sprat/result.h"

namespace sprat::gpu {

struct GoldenVector {
  std::vector<uint32_t> ids;
  std::vector<float> vector;
};

// Reads the two keys by their names; no JSON library, so that the GPU's test program needs none.
Result<std::vector<GoldenVector>> ReadGolden(const std::filesystem::path& file);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_GOLDEN_FOR_TEST_H_
