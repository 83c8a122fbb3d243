// A model of the shape that the kernels are compiled for, with random weights: no files needed.
#ifndef SPRAT_GPU_RANDOM_MODEL_FOR_TEST_H_
#define SPRAT_GPU_RANDOM_MODEL_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/packing.h"
#include "model/config.h"
#include "model/model.h"

namespace sprat::gpu {

struct RandomModel {
  EncoderConfig config;
  std::map<std::string, std::vector<float>, std::less<>> tensors;  // values exact in f16

  // Fails if a tensor is missing or `shape` is not its shape.
  ReadTensor Reader() const;
};

// Weights from N(0, 0.04^2), LayerNorm weights near 1; the same for a seed on every machine.
RandomModel MakeRandomModel(uint32_t layers, uint32_t vocabulary, uint64_t seed);

// One sequence of each of the lengths, ids drawn from the vocabulary.
TokenBatch RandomBatch(const std::vector<size_t>& lengths, uint32_t vocabulary, uint64_t seed);

// Of two vectors of n values; NaN if either holds one.
double Cosine(const float* a, const float* b, size_t n);
double LargestDifference(const float* a, const float* b, size_t n);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_RANDOM_MODEL_FOR_TEST_H_
