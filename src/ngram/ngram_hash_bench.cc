// Table ids a second of one core, for every table of kernels.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "ngram/dispatch.h"
#include "ngram/flash_lite_for_test.h"
#include "ngram/ngram_hash.h"

namespace sprat {
namespace {

std::vector<uint32_t> RandomTokens(size_t count, uint32_t vocabulary) {
  std::mt19937 random(1);
  std::uniform_int_distribution<uint32_t> token(0, vocabulary - 1);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& x : tokens) x = token(random);
  return tokens;
}

void Ids(benchmark::State& state, const NgramKernels* kernels) {
  const NgramHash hash(FlashLite(), *kernels);
  const std::vector<uint32_t> tokens =
      RandomTokens(static_cast<size_t>(state.range(0)), hash.config().vocabulary);
  std::vector<uint32_t> ids(tokens.size() * hash.config().tables());
  for (auto _ : state) {
    hash.Ids({}, tokens, ids);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(ids.size()) * state.iterations());
}

void IdsByDefinition(benchmark::State& state) {
  const NgramHash hash(FlashLite(), ScalarNgramKernels());
  const std::vector<uint32_t> tokens = RandomTokens(4096, hash.config().vocabulary);
  std::vector<uint32_t> ids(tokens.size() * hash.config().tables());
  for (auto _ : state) {
    hash.IdsByDefinition({}, tokens, ids);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(ids.size()) * state.iterations());
}
BENCHMARK(IdsByDefinition);

const bool kRegistered = [] {
  for (const NgramKernels* kernels : RunnableNgramKernels()) {
    const std::string name = std::string("Ids/") + kernels->name;
    benchmark::RegisterBenchmark(name.c_str(), Ids, kernels)->Arg(1)->Arg(64)->Arg(4096);
  }
  return true;
}();

}  // namespace
}  // namespace sprat
