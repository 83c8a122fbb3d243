#include "gpu/ngram_bench_for_test.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "gpu/cases_for_test.h"
#include "gpu/large_ngram_for_test.h"
#include "gpu/ngram_random_for_test.h"

namespace sprat::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<uint32_t>;
using Values = std::vector<float>;

// Device time of one call in a stream of calls over several batches, so that no batch finds its
// rows in the L2; the projections stay there.
double TimeCalls(const NgramPath& path, uint32_t tokens, bool overlap, const uint32_t* stream,
                 uint32_t streams, uint16_t* out) {
  const Stream queue = Value(CreateStream());
  const Event start = Value(CreateEvent()), stop = Value(CreateEvent());
  const DeviceBuffer workspace = Value(AllocateDevice(path.WorkspaceBytes(tokens) + 16));
  const auto run = [&](uint32_t calls) {
    for (uint32_t i = 0; i < calls; ++i) {
      NgramRequest request;
      request.stream = stream + size_t{i % streams} * (tokens + 3);
      request.tokens = tokens;
      request.workspace = reinterpret_cast<uint16_t*>(workspace.get());
      Done(path.Enqueue(request, out, queue.get(), overlap));
    }
  };
  const uint32_t calls = tokens <= 256 ? 640 : tokens <= 2048 ? 160 : 48;
  std::vector<double> times;
  run(calls / 4);
  for (int repeat = 0; repeat < 7; ++repeat) {
    Done(Check(cudaEventRecord(start.get(), queue.get()), "event"));
    run(calls);
    Done(Check(cudaEventRecord(stop.get(), queue.get()), "event"));
    Done(Check(cudaEventSynchronize(stop.get()), "event"));
    float ms = 0;
    Done(Check(cudaEventElapsedTime(&ms, start.get(), stop.get()), "event"));
    times.push_back(1000.0 * double{ms} / calls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Median of calls of Embed from host memory to host memory, one after the other.
double TimeEmbed(NgramPath& path, uint32_t tokens, uint32_t vocabulary) {
  Values out(size_t{tokens} * path.plan().hidden);
  std::vector<double> times;
  for (uint32_t i = 0; i < 220; ++i) {
    const Tokens drawn = RandomTokens(tokens, vocabulary, i);
    const std::vector<NgramPiece> pieces = {{{}, drawn}};
    const Clock::time_point start = Clock::now();
    Done(path.Embed(pieces, {}, out));
    if (i >= 20) {
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Device time of batches whose rows are anywhere in an arena of 1 GiB, in host or device memory,
// through the batch kernel.
void BenchArenas(const NgramPath& path) {
  constexpr size_t kArenaBytes{size_t{1} << 30};
  const PinnedBuffer host = Value(AllocatePinned(kArenaBytes));
  const DeviceBuffer device = Value(AllocateDevice(kArenaBytes));
  const NgramPlan& plan = path.plan();
  for (const uint32_t tokens : {16, 64, 256, 2048}) {
    const size_t rows = size_t{tokens} * plan.tables;
    const DeviceBuffer stream = Value(AllocateDevice((tokens + 3) * 4));
    const DeviceBuffer out = Value(AllocateDevice(size_t{tokens} * plan.hidden * 2));
    const DeviceBuffer workspace = Value(AllocateDevice(BatchWorkspaceBytes(tokens, plan.hidden)));
    for (const std::byte* arena : {host.get(), device.get()}) {
      std::mt19937_64 random(tokens);
      std::vector<const std::byte*> places;
      for (size_t i = 0; i < 8 * rows; ++i) places.push_back(arena + random() % (1 << 21) * 512);
      const DeviceBuffer on_device = Value(AllocateDevice(places.size() * 8));
      Done(Check(
          cudaMemcpy(on_device.get(), places.data(), places.size() * 8, cudaMemcpyHostToDevice),
          "copying"));
      const Event start = Value(CreateEvent()), stop = Value(CreateEvent());
      const auto run = [&](uint32_t calls) {
        for (uint32_t i = 0; i < calls; ++i) {
          NgramRequest request;
          request.stream = reinterpret_cast<const uint32_t*>(stream.get());
          request.tokens = tokens;
          request.rows = reinterpret_cast<const std::byte* const*>(on_device.get()) + i % 8 * rows;
          request.workspace = reinterpret_cast<uint16_t*>(workspace.get());
          Done(path.Enqueue(request, reinterpret_cast<uint16_t*>(out.get()), nullptr));
        }
      };
      run(8);
      Done(Check(cudaEventRecord(start.get()), "event"));
      run(64);
      Done(Check(cudaEventRecord(stop.get()), "event"));
      Done(Check(cudaEventSynchronize(stop.get()), "event"));
      float ms = 0;
      Done(Check(cudaEventElapsedTime(&ms, start.get(), stop.get()), "event"));
      fmt::print("bf16 {:5} tokens, arena in {} memory: {:7.2f} us\n", tokens,
                 arena == host.get() ? "host" : "device", 1000.0 * double{ms} / 64);
    }
  }
}

}  // namespace

Tokens RandomTokens(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (uint32_t& x : tokens) x = static_cast<uint32_t>(random() % vocabulary);
  return tokens;
}

const char* NameOf(NgramKernel kernel) {
  return kernel == NgramKernel::kQuery   ? "query"
         : kernel == NgramKernel::kSplit ? "split"
                                         : "batch";
}

int BenchNgram() {
  constexpr uint32_t kStreams{64};
  for (const bool fp8 : {false, true}) {
    const Large large = MakeLarge(fp8);
    for (const uint32_t tokens : {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 8192}) {
      const uint32_t streams = tokens > 2048 ? 8 : kStreams;
      const size_t words = size_t{streams} * (tokens + 3);
      const DeviceBuffer stream = Value(AllocateDevice(words * 4));
      auto* drawn = reinterpret_cast<uint32_t*>(stream.get());
      Done(FillTokens(drawn, words, large.config.vocabulary, tokens));
      const DeviceBuffer out = Value(AllocateDevice(size_t{tokens} * 3072 * 2));
      auto* to = reinterpret_cast<uint16_t*>(out.get());
      const double arithmetic = 2.0 * tokens * 3072 * 3072 / 790e6;
      const double bytes = (18.9e6 + tokens * (3072.0 * (fp8 ? 1 : 2) + 2 * 6144.0)) / 4.3e6;
      const double floor = std::max(arithmetic, bytes);
      for (const NgramKernel kernel :
           {NgramKernel::kQuery, NgramKernel::kSplit, NgramKernel::kBatch}) {
        large.path->ForceKernel(kernel);
        if (large.path->KernelOf(tokens) != kernel) continue;
        if (kernel == NgramKernel::kBatch ? tokens < 256 : tokens > 2048) continue;
        const double alone = TimeCalls(*large.path, tokens, false, drawn, streams, to);
        const double overlapped = TimeCalls(*large.path, tokens, true, drawn, streams, to);
        large.path->ForceKernel({});
        fmt::print("{} {:5} tokens, {}{}: {:7.2f} us, overlapping {:7.2f} us, {:.2f} x {:.1f} us\n",
                   fp8 ? "fp8 " : "bf16", tokens, NameOf(kernel),
                   large.path->KernelOf(tokens) == kernel ? "*" : " ", alone, overlapped,
                   alone / floor, floor);
        std::fflush(stdout);
      }
    }
    for (const uint32_t tokens : {1, 16, 64, 256}) {
      fmt::print("{} {:5} tokens, host to host: {:7.2f} us\n", fp8 ? "fp8 " : "bf16", tokens,
                 TimeEmbed(*large.path, tokens, large.config.vocabulary));
    }
    if (!fp8) BenchArenas(*large.path);
  }
  return 0;
}

}  // namespace sprat::gpu
