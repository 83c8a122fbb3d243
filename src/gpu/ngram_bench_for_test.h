// Measures the n-gram embedding at Flash-Lite's dimensions; random tokens.
#ifndef SPRAT_GPU_NGRAM_BENCH_FOR_TEST_H_
#define SPRAT_GPU_NGRAM_BENCH_FOR_TEST_H_

#include <cstdint>
#include <vector>

#include "gpu/ngram_path.h"

namespace sprat::gpu {

std::vector<uint32_t> RandomTokens(size_t count, uint32_t vocabulary, uint32_t seed);
const char* NameOf(NgramKernel kernel);

// A line for each kernel and number of tokens: device time of calls alone and overlapping, and the
// floor; then calls from host to host, and rows in an arena. The exit status of a program.
int BenchNgram();

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_BENCH_FOR_TEST_H_
