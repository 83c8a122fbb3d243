// Speed of each kernel table at the sizes of MiniLM: H = 384, F = 1536, 12 heads of 32.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/dispatch.h"
#include "kernels/kernels.h"

namespace sprat {
namespace {

Buffer<float> Filled(size_t n) {
  Buffer<float> buffer = Buffer<float>::Allocate(n).value();
  for (size_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(i % 251) * 0.004f - 0.5f;
  return buffer;
}

// `copies` of W in turn: one stays in cache, as in bulk; enough of them stream from memory, as in a
// query. T rows.
void Linear(benchmark::State& state, const Kernels& k, size_t in, size_t out, size_t copies) {
  const auto rows = static_cast<size_t>(state.range(0));
  const size_t panels = (out + k.panel_rows - 1) / k.panel_rows;
  const size_t matrix = panels * k.panel_bytes(in) / sizeof(float);
  const Buffer<float> weights = Filled(matrix * copies);
  const Buffer<float> bias = Filled(panels * k.panel_rows);
  const Buffer<float> x = Filled(rows * in);
  const Buffer<float> y = Filled(rows * out);
  size_t copy = 0;
  for (auto _ : state) {
    k.linear({.x = x.begin(),
              .x_stride = in,
              .rows = rows,
              .weights = {.panels = weights.begin() + copy * matrix,
                          .bias = bias.begin(),
                          .in = in,
                          .out = out},
              .first_panel = 0,
              .panels = panels,
              .epilogue = Epilogue::kGelu,
              .y = y.begin(),
              .y_stride = out});
    copy = (copy + 1) % copies;
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(static_cast<double>(2 * rows * in * out),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

// All heads of one sequence of S tokens.
void Attention(benchmark::State& state, const Kernels& k) {
  constexpr size_t kHeads{12};
  constexpr size_t kHidden{384};
  const auto S = static_cast<size_t>(state.range(0));
  const Buffer<float> qkv = Filled(S * 3 * kHidden);
  const Buffer<float> out = Filled(S * kHidden);
  const Buffer<float> scratch = Filled(k.attention_scratch(S, kHidden / kHeads));
  for (auto _ : state) {
    for (size_t head = 0; head < kHeads; ++head) {
      const float* q = qkv.begin() + head * (kHidden / kHeads);
      k.attention({.q = q,
                   .k = q + kHidden,
                   .v = q + 2 * kHidden,
                   .stride = 3 * kHidden,
                   .keys = S,
                   .head_size = kHidden / kHeads,
                   .first_query = 0,
                   .queries = S,
                   .out = out.begin() + head * (kHidden / kHeads),
                   .out_stride = kHidden,
                   .scratch = scratch.begin()});
    }
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(static_cast<double>(4 * S * S * kHidden),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void AddLayerNorm(benchmark::State& state, const Kernels& k) {
  const auto rows = static_cast<size_t>(state.range(0));
  constexpr size_t kHidden{384};
  const Buffer<float> x = Filled(rows * kHidden);
  const Buffer<float> y = Filled(rows * kHidden);
  const Buffer<float> gamma = Filled(kHidden);
  for (auto _ : state) {
    k.add_layer_norm({.x = x.begin(),
                      .x_stride = kHidden,
                      .y = y.begin(),
                      .y_stride = kHidden,
                      .rows = rows,
                      .columns = kHidden,
                      .gamma = gamma.begin(),
                      .beta = gamma.begin(),
                      .eps = 1e-12f});
    benchmark::ClobberMemory();
  }
}

bool RegisterAll() {
  for (const Kernels* table : RunnableKernels()) {
    const std::string name = std::string("/") + table->name;
    const auto add = [&name](const char* what, auto function) {
      return benchmark::RegisterBenchmark((what + name).c_str(), function);
    };
    add("linear_up_cached", [table](auto& state) { Linear(state, *table, 384, 1536, 1); })
        ->Arg(1)
        ->Arg(8)
        ->Arg(9)
        ->Arg(64);
    add("linear_down_cached", [table](auto& state) { Linear(state, *table, 1536, 384, 1); })
        ->Arg(8)
        ->Arg(64);
    add("linear_up_streamed", [table](auto& state) { Linear(state, *table, 384, 1536, 40); })
        ->Arg(8)
        ->Arg(32);
    add("attention", [table](auto& state) { Attention(state, *table); })->Arg(8)->Arg(32)->Arg(128);
    add("add_layer_norm", [table](auto& state) { AddLayerNorm(state, *table); })->Arg(8);
  }
  return true;
}

const bool kRegistered = RegisterAll();

}  // namespace
}  // namespace sprat
