// The single launch on a GPU: one plain program, one line a case, exit status 1 if one failed and
// 77 if there is no GPU that can run it.
//
//   grid_tests                                     cases that need no files
//   grid_tests --model DIR --golden minilm.jsonl   and parity on real weights
//   grid_tests --sanitize                          few launches, for compute-sanitizer
//   grid_tests --model DIR --bench                 times only, as docs/gpu-spike.md reports them
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "gpu/cases_for_test.h"
#include "gpu/device.h"
#include "gpu/golden_for_test.h"
#include "gpu/gpu_encoder.h"
#include "gpu/grid_layers.h"
#include "gpu/grid_packing.h"
#include "gpu/grid_twin_for_test.h"
#include "gpu/model_file_for_test.h"
#include "gpu/random_model_for_test.h"

namespace sprat::gpu::grid {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint32_t kVocabulary{1000};

// The layers of one model on the device.
class Runner {
 public:
  Runner(std::span<const std::byte> weights, uint32_t layers, float eps)
      : layers_(layers),
        eps_(eps),
        weights_(Value(AllocateDevice(weights.size()))),
        failure_(Value(AllocateDevice(sizeof(uint32_t)))),
        stream_(Value(CreateStream())) {
    Done(Check(cudaMemcpy(weights_.get(), weights.data(), weights.size(), cudaMemcpyHostToDevice),
               "copying weights"));
  }

  // From here on every launch starts with kX of layer 0 of `input`.
  void Prepare(ExchangeMemory& input, uint32_t tokens) {
    tokens_ = tokens;
    words_ = input.words().size();
    exchange_ = Value(AllocateDevice(2 * Bytes()));
    for (uint32_t copy = 0; copy < 2; ++copy) {
      Done(Check(cudaMemcpy(Copy(copy), input.words().data(), Bytes(), cudaMemcpyHostToDevice),
                 "copying the input"));
    }
    parity_ = 0;
  }
  void Launch() { Launch(layers_); }
  void Launch(uint32_t layers) {
    const GridArguments arguments{.weights = weights_.get(),
                                  .exchange = Copy(parity_),
                                  .other = Copy(1 - parity_),
                                  .failure = reinterpret_cast<uint32_t*>(failure_.get()),
                                  .tokens = tokens_,
                                  .layers = layers,
                                  .eps = eps_};
    Done(Check(LaunchLayers(arguments, stream_.get()), "launching the layers"));
    parity_ = 1 - parity_;
  }
  // What the last launch exchanged; 0, or who waited in vain.
  uint32_t Finish(ExchangeMemory& out) {
    Done(Check(cudaStreamSynchronize(stream_.get()), "waiting for the device"));
    uint32_t failure = 0;
    Done(Check(cudaMemcpy(&failure, failure_.get(), sizeof failure, cudaMemcpyDeviceToHost),
               "copying the failure"));
    Done(Check(cudaMemcpy(out.words().data(), Copy(1 - parity_), Bytes(), cudaMemcpyDeviceToHost),
               "copying exchanges"));
    return failure;
  }
  void ClearFailure() {
    Done(Check(cudaMemset(failure_.get(), 0, sizeof(uint32_t)), "clearing the failure"));
  }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  size_t Bytes() const { return words_ * sizeof(uint32_t); }
  uint32_t* Copy(uint32_t parity) {
    return reinterpret_cast<uint32_t*>(exchange_.get()) + parity * words_;
  }

  uint32_t layers_;
  float eps_;
  DeviceBuffer weights_, failure_, exchange_;
  Stream stream_;
  size_t words_ = 0;
  uint32_t tokens_ = 0;
  uint32_t parity_ = 0;
};

ExchangeMemory MemoryFor(size_t tokens) { return ExchangeMemory(tokens <= kTile ? 1 : 2); }

// A model with what both sides need of it.
struct Loaded {
  EncoderConfig config;
  ByteBuffer weights;
  Ends ends;

  std::span<const std::byte> bytes() const { return {weights.begin(), weights.size_bytes()}; }
  Runner MakeRunner() const { return Runner(bytes(), config.layers, config.layer_norm_eps); }
};
Loaded Load(const EncoderConfig& config, const ReadTensor& read) {
  return {config, Value(PackLayers(config, read)), Value(Ends::Read(config, read))};
}
Loaded LoadRandom(uint32_t layers) {
  const RandomModel model = MakeRandomModel(layers, kVocabulary, 1);
  return Load(model.config, model.Reader());
}
Loaded LoadDirectory(const std::string& directory) {
  const ModelFile file = Value(ModelFile::Open(directory));
  return Load(file.config(), file.Reader());
}

// ||a - b|| / ||b|| of one exchange.
double RelativeError(const ExchangeMemory& a, const ExchangeMemory& b, Exchange exchange,
                     uint32_t layer, uint32_t tokens) {
  double error = 0, norm = 0;
  for (uint32_t t = 0; t < tokens; ++t) {
    for (uint32_t c = 0; c < SlicesOf(exchange) * kSlice; ++c) {
      const double x = static_cast<double>(a.Get(exchange, layer, t, c));
      const double y = static_cast<double>(b.Get(exchange, layer, t, c));
      error += (x - y) * (x - y);
      norm += y * y;
    }
  }
  return std::sqrt(error / norm);
}

std::string CompareWithTheTwin(const Loaded& model, const std::vector<size_t>& lengths,
                               double bound) {
  Runner runner = model.MakeRunner();
  const GridTwin twin(model.bytes(), model.config.layers, model.config.layer_norm_eps);
  double worst = 0;
  for (const size_t length : lengths) {
    const TokenBatch batch = RandomBatch({length}, kVocabulary, length);
    const uint32_t tokens = static_cast<uint32_t>(length);
    ExchangeMemory expected = MemoryFor(length), got = MemoryFor(length);
    model.ends.Start(batch.Sequence(0), expected);
    runner.Prepare(expected, tokens);
    twin.Run(tokens, expected);
    runner.Launch();
    const uint32_t failure = runner.Finish(got);
    Expect(failure == 0, fmt::format("{} tokens: block {} waited in vain", length, failure - 1));
    for (uint32_t layer = 0; layer < model.config.layers; ++layer) {
      const std::tuple<const char*, Exchange, uint32_t> parts[] = {
          {"context", Exchange::kContext, layer},
          {"y", Exchange::kY, layer},
          {"inner", Exchange::kInner, layer},
          {"x", Exchange::kX, layer + 1}};
      for (const auto& [name, exchange, at] : parts) {
        const double error = RelativeError(got, expected, exchange, at, tokens);
        Expect(error <= bound, fmt::format("{} tokens, {} of layer {}: relative error {:.2e}",
                                           length, name, layer, error));
        worst = std::max(worst, error);
      }
    }
  }
  return fmt::format("largest relative error of an exchange {:.2e}", worst);
}

std::string RepeatsHaveTheSameBits(const Loaded& model) {
  Runner runner = model.MakeRunner();
  for (const uint32_t tokens : {5u, 16u}) {
    const TokenBatch batch = RandomBatch({tokens}, kVocabulary, tokens);
    ExchangeMemory first = MemoryFor(tokens), again = MemoryFor(tokens);
    model.ends.Start(batch.Sequence(0), first);
    runner.Prepare(first, tokens);
    runner.Launch();
    Expect(runner.Finish(first) == 0, "a wait expired");
    for (int i = 0; i < 300; ++i) {
      runner.Launch();
      if (i % 10 == 0) {
        Expect(runner.Finish(again) == 0, "a wait expired");
        Expect(again.words() == first.words(), fmt::format("{} tokens, run {}", tokens, i));
      }
    }
  }
  return "300 launches of 5 and of 16 tokens";
}

std::string AWaitThatExpiresIsReported(const Loaded& model) {
  Runner runner = model.MakeRunner();
  const TokenBatch batch = RandomBatch({8}, kVocabulary, 1);
  ExchangeMemory input(1), out(1);
  runner.Prepare(input, 8);  // nothing was ever put in
  const Clock::time_point start = Clock::now();
  runner.Launch();
  const uint32_t failure = runner.Finish(out);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Expect(failure != 0 && failure <= kBlocks, fmt::format("reported {}", failure));
  Expect(seconds < 30, fmt::format("took {} s", seconds));
  runner.ClearFailure();
  model.ends.Start(batch.Sequence(0), input);
  runner.Prepare(input, 8);
  runner.Launch();
  Expect(runner.Finish(out) == 0, "the next launch failed too");
  return fmt::format("block {} after {:.1f} s; the next launch works", failure - 1, seconds);
}

std::string AgreesWithTheGoldenVectors(const Loaded& model, const std::string& golden) {
  Runner runner = model.MakeRunner();
  double cosine = 1, difference = 0;
  size_t seen = 0;
  for (const GoldenVector& one : Value(ReadGolden(golden))) {
    if (one.ids.size() > kTile * kMostTiles) continue;
    const uint32_t tokens = static_cast<uint32_t>(one.ids.size());
    ExchangeMemory exchange = MemoryFor(tokens);
    model.ends.Start(one.ids, exchange);
    runner.Prepare(exchange, tokens);
    runner.Launch();
    Expect(runner.Finish(exchange) == 0, "a wait expired");
    const std::vector<float> vector = model.ends.Finish(exchange, model.config.layers, tokens);
    cosine = std::min(cosine, Cosine(vector.data(), one.vector.data(), kHidden));
    difference = std::max(difference, LargestDifference(vector.data(), one.vector.data(), kHidden));
    Expect(cosine >= 0.99999 && difference <= 2e-3,
           fmt::format("text {}: cosine {}, difference {}", seen, cosine, difference));
    ++seen;
  }
  return fmt::format("{} texts: least cosine {:.8f}, largest difference {:.2e}", seen, cosine,
                     difference);
}

// --- Times ---------------------------------------------------------------------------------------

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double DeviceMicroseconds(Runner& runner, uint32_t layers) {
  const Event begin = Value(CreateEvent()), end = Value(CreateEvent());
  std::vector<double> times;
  for (int round = 0; round < 7; ++round) {
    constexpr int kLaunches{200};
    Done(Check(cudaEventRecord(begin.get(), runner.stream()), "recording an event"));
    for (int i = 0; i < kLaunches; ++i) runner.Launch(layers);
    Done(Check(cudaEventRecord(end.get(), runner.stream()), "recording an event"));
    Done(Check(cudaEventSynchronize(end.get()), "waiting for the device"));
    float milliseconds = 0;
    Done(Check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "reading an event"));
    times.push_back(1000.0 * static_cast<double>(milliseconds) / kLaunches);
  }
  return Median(times);
}

int Bench(const Loaded& model) {
  fmt::print("tokens: device us of 1, 2, ... layers in one launch (median of 7 x 200 in a row)\n");
  for (const uint32_t tokens : {8u, 16u}) {
    const TokenBatch batch = RandomBatch({tokens}, kVocabulary, tokens);
    ExchangeMemory exchange = MemoryFor(tokens);
    model.ends.Start(batch.Sequence(0), exchange);
    fmt::print("  {:4} ", tokens);
    for (uint32_t layers = 1; layers <= model.config.layers; ++layers) {
      Runner runner = model.MakeRunner();
      runner.Prepare(exchange, tokens);
      fmt::print(" {:6.2f}", DeviceMicroseconds(runner, layers));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
}

// Under a checker a launch takes long: few of them, and no twin.
int Sanitize() {
  const Loaded model = LoadRandom(2);
  Runner runner = model.MakeRunner();
  for (const uint32_t tokens : {5u, 16u}) {
    const TokenBatch batch = RandomBatch({tokens}, kVocabulary, tokens);
    ExchangeMemory exchange = MemoryFor(tokens);
    model.ends.Start(batch.Sequence(0), exchange);
    runner.Prepare(exchange, tokens);
    for (int i = 0; i < 3; ++i) runner.Launch();
    const uint32_t failure = runner.Finish(exchange);
    fmt::print("{} tokens: {}\n", tokens, failure == 0 ? "done" : "a wait expired");
  }
  return 0;
}

int RunCases(const std::string& directory, const std::string& golden) {
  const Loaded random = LoadRandom(6);
  std::vector<Case> cases = {
      {"one layer agrees with the twin",
       [] {
         return CompareWithTheTwin(LoadRandom(1), {1, 5, 8, 9, 16}, 1e-3);
       }},
      {"six layers agree with the twin",
       [&] {
         return CompareWithTheTwin(random, {8, 16}, 2e-3);
       }},
      {"repeats have the same bits", [&] { return RepeatsHaveTheSameBits(random); }},
      {"a wait that expires is reported", [&] { return AWaitThatExpiresIsReported(random); }}};
  if (!directory.empty()) {
    cases.emplace_back("real weights agree with the twin", [&] {
      return CompareWithTheTwin(LoadDirectory(directory), {7, 16}, 2e-3);
    });
    cases.emplace_back("agrees with the golden vectors", [&] {
      return AgreesWithTheGoldenVectors(LoadDirectory(directory), golden);
    });
  }
  return RunAll(cases);
}

}  // namespace
}  // namespace sprat::gpu::grid

int main(int argc, char** argv) {
  using namespace sprat::gpu;
  std::string model, golden;
  bool bench = false, sanitize = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--bench") bench = true;
    if (argument == "--sanitize") sanitize = true;
    if (argument == "--model" && i + 1 < argc) model = argv[++i];
    if (argument == "--golden" && i + 1 < argc) golden = argv[++i];
  }
  const sprat::Result<std::string> device = DescribeDevice(0);
  if (!device.ok()) {
    fmt::print("skipped: {}\n", device.error().message());
    return 77;
  }
  fmt::print("# {}\n", device.value());
  if (grid::PrepareLayers(0) != cudaSuccess) {
    fmt::print("skipped: the device has too few multiprocessors or too little shared memory\n");
    return 77;
  }
  try {
    if (sanitize) return grid::Sanitize();
    return bench ? grid::Bench(grid::LoadDirectory(model)) : grid::RunCases(model, golden);
  } catch (const Failure& failure) {
    fmt::print("FAILED {}\n", failure.why);
    return 1;
  }
}
