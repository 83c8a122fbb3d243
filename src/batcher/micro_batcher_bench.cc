// What the batcher adds to a lone request, with a device that takes no time.
#include "batcher/micro_batcher.h"

#include <benchmark/benchmark.h>

namespace sprat {
namespace {

Result<size_t> NoWork(std::span<const Slice> batch) { return batch.size(); }

std::shared_ptr<Job> MakeJob() { return std::make_shared<Job>(std::vector<uint32_t>{8}); }

void BM_LoneRun(benchmark::State& state) {
  const auto batcher = MicroBatcher::Start({}, NoWork).value();
  for (auto _ : state) benchmark::DoNotOptimize(batcher->Run(MakeJob()).ok());
}
BENCHMARK(BM_LoneRun);

// Submit in this thread and wait for the answer from the worker: two hand-overs. `inline_tokens`
// saves both.
void BM_LoneSubmit(benchmark::State& state) {
  BatchLimits limits;
  limits.inline_tokens = static_cast<size_t>(state.range(0));
  const auto batcher = MicroBatcher::Start(limits, NoWork).value();
  for (auto _ : state) {
    std::atomic<bool> answered{false};
    batcher->Submit(MakeJob(),
                    [&](Result<void>) { answered.store(true, std::memory_order_release); });
    while (!answered.load(std::memory_order_acquire)) {
    }
  }
}
BENCHMARK(BM_LoneSubmit)->Arg(0)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace sprat
