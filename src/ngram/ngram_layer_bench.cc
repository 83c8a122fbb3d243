// The projection alone, its two floors, and the whole layer, at the width of Flash-Lite.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/cpu_budget.h"
#include "base/thread_pool.h"
#include "model/safetensors.h"
#include "ngram/dispatch.h"
#include "ngram/flash_lite_for_test.h"
#include "ngram/packed_projection.h"

namespace sprat {
namespace {

// Projections of random bf16 without a file.
struct RandomProjections {
  std::vector<uint16_t> values;
  Tensor tensor;
  TensorFile no_file;
  NgramTensors tensors;

  explicit RandomProjections(const NgramConfig& config) {
    std::mt19937 random(1);
    std::uniform_int_distribution<uint32_t> bits(0x3c00, 0x3d00);
    values.resize(size_t{config.hidden} * config.width());
    for (uint16_t& value : values) value = static_cast<uint16_t>(bits(random));
    tensor = {DType::kBF16, {config.hidden, config.width()}, std::as_bytes(std::span(values))};
    tensors.file = &no_file;
    tensors.projections.assign(config.tables(), &tensor);
    tensors.projection_names.assign(config.tables(), "random");
  }
};

// (tokens, H) by (H, H) with the epilogue, all threads.
void Project(benchmark::State& state) {
  const auto tokens = static_cast<size_t>(state.range(0));
  const NgramConfig config = FlashLite();
  const RandomProjections random(config);
  auto threads = std::move(ThreadPool::Create(CpuBudget())).value();
  Result<PackedProjection> packed = PackedProjection::Pack(config, random.tensors, *threads);
  const PackedProjection& projection = packed.value();
  std::vector<uint16_t> x(tokens * projection.depth(), 0x3c80);
  std::vector<float> y(tokens * config.hidden);
  const NgramKernels& kernels = *RunnableNgramKernels().front();
  for (auto _ : state) {
    threads->Run([&](size_t rank, Team& team) {
      projection.Apply({.x = x.data(), .y = y.data(), .tokens = tokens}, kernels,
                       ShareOf(projection.panels(), rank, team.size()));
    });
  }
  const double flops = 2.0 * static_cast<double>(tokens) * config.hidden * config.hidden;
  state.counters["flop/s"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<int64_t>(projection.size_bytes()) * state.iterations());
}
BENCHMARK(Project)->Arg(1)->Arg(8)->Arg(16)->Arg(64)->Arg(512)->UseRealTime();

// The floor of arithmetic: 64 tokens against one panel that stays in the first-level cache.
void ProjectFromCache(benchmark::State& state) {
  constexpr size_t kDepth{256}, kTokens{64};
  std::vector<uint16_t> x(kTokens * kDepth, 0x3c80), w(kDepth * Projection::kPanel, 0x3c80);
  auto threads = std::move(ThreadPool::Create(CpuBudget())).value();
  std::vector<std::vector<float>> y(threads->size(),
                                    std::vector<float>(kTokens * Projection::kPanel));
  const NgramKernels& kernels = *RunnableNgramKernels().front();
  for (auto _ : state) {
    threads->Run([&](size_t rank, Team&) {
      for (size_t i = 0; i < 100; ++i) {
        kernels.project({.x = x.data(),
                         .w = w.data(),
                         .depth = kDepth,
                         .y = y[rank].data(),
                         .y_stride = Projection::kPanel,
                         .tokens = kTokens,
                         .columns = Projection::kPanel,
                         .word_scale = 0,
                         .sum_scale = 1});
      }
    });
  }
  const double flops =
      200.0 * kTokens * kDepth * Projection::kPanel * static_cast<double>(threads->size());
  state.counters["flop/s"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}
BENCHMARK(ProjectFromCache)->UseRealTime();

// The floor of bytes: as many as the packed weights, summed by all threads.
void ReadWeights(benchmark::State& state) {
  const NgramConfig config = FlashLite();
  const size_t words = size_t{config.hidden} * config.hidden / 4;
  auto threads = std::move(ThreadPool::Create(CpuBudget())).value();
  Buffer<uint64_t> weights = std::move(Buffer<uint64_t>::Allocate(words)).value();
  std::fill(weights.begin(), weights.end(), 1);
  for (auto _ : state) {
    threads->Run([&](size_t rank, Team& team) {
      const Share share = ShareOf(words, rank, team.size());
      uint64_t sums[8] = {};
      for (size_t i = share.begin; i + 8 <= share.end; i += 8) {
        for (size_t j = 0; j < 8; ++j) sums[j] += weights[i + j];
      }
      benchmark::DoNotOptimize(sums);
    });
  }
  state.SetBytesProcessed(static_cast<int64_t>(words * 8) * state.iterations());
}
BENCHMARK(ReadWeights)->UseRealTime();

}  // namespace
}  // namespace sprat
