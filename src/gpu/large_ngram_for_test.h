// A model of Flash-Lite's dimensions with random values made on the device.
#ifndef SPRAT_GPU_LARGE_NGRAM_FOR_TEST_H_
#define SPRAT_GPU_LARGE_NGRAM_FOR_TEST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/ngram_path.h"
#include "ngram/ngram_config.h"

namespace sprat::gpu {

struct Large {
  NgramConfig config;
  std::vector<uint16_t> projections;
  std::unique_ptr<NgramPath> path;
};

// 12 tables of 1 M rows of 256 values, E4M3 with a scale a row or bf16.
Large MakeLarge(bool fp8);

// The vector of the last of `tokens` in double precision, from the rows as they are stored.
std::vector<double> ExactVector(const Large& large, const std::vector<uint32_t>& tokens);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_LARGE_NGRAM_FOR_TEST_H_
