#include "gpu/large_ngram_for_test.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "gpu/cases_for_test.h"
#include "gpu/ngram_random_for_test.h"
#include "ngram/ngram_hash.h"
#include "ngram/number_formats.h"

namespace sprat::gpu {
namespace {

template <typename T>
std::vector<T> Fetch(const T* from, size_t count) {
  std::vector<T> values(count);
  Done(
      Check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "copying"));
  return values;
}

}  // namespace

Large MakeLarge(bool fp8) {
  Large large;
  large.config.vocabulary = 131072;
  large.config.hidden = 3072;
  large.config.max_order = 4;
  large.config.splits = 4;
  large.config.base_rows = 1000000;
  large.config.eos = 2;
  NgramWeights weights = Value(NgramWeights::Allocate(large.config, fp8, true));
  for (uint32_t i = 0; i < 12; ++i) {
    const size_t rows = large.config.rows(i);
    if (fp8) {
      Done(FillE4m3(reinterpret_cast<uint8_t*>(weights.Rows(i)), rows * 256, i + 1));
      Done(FillFloat(weights.Scales(i), rows, 0.001f, 0.01f, i + 50));
    } else {
      Done(FillBf16(reinterpret_cast<uint16_t*>(weights.Rows(i)), rows * 256, 1.0f, i + 1));
    }
  }
  Done(FillBf16(weights.Word(), size_t{131072} * 3072, 1.0f, 100));
  const DeviceBuffer drawn = Value(AllocateDevice(size_t{3072} * 3072 * 2));
  Done(FillBf16(reinterpret_cast<uint16_t*>(drawn.get()), size_t{3072} * 3072, 0.05f, 101));
  large.projections.resize(size_t{3072} * 3072);
  Done(Check(cudaMemcpy(large.projections.data(), drawn.get(), large.projections.size() * 2,
                        cudaMemcpyDeviceToHost),
             "copying"));
  Done(weights.SetProjections(large.projections));
  large.path = Value(NgramPath::Open(std::move(weights)));
  return large;
}

std::vector<double> ExactVector(const Large& large, const std::vector<uint32_t>& tokens) {
  const NgramModelView& view = large.path->view();
  std::vector<uint32_t> ids(tokens.size() * 12);
  NgramHash(large.config, ScalarNgramKernels()).IdsByDefinition({}, tokens, ids);
  const std::vector<NgramTableEntry> entries = Fetch(view.entries, 12);
  std::vector<double> sum(3072, 0.0);
  for (uint32_t i = 0; i < 12; ++i) {
    const size_t id = ids[ids.size() - 12 + i];
    std::vector<double> row(256);
    if (view.fp8) {
      const auto codes = Fetch(reinterpret_cast<const uint8_t*>(entries[i].rows) + id * 256, 256);
      const double scale = Fetch(entries[i].scales + id, 1)[0];
      std::vector<uint16_t> decoded(256);
      ScalarNgramKernels().decode_e4m3(codes.data(), 1.0f, 256, decoded.data());
      for (size_t k = 0; k < 256; ++k) row[k] = scale * double{Bf16ToFloat(decoded[k])};
    } else {
      const auto stored = Fetch(reinterpret_cast<const uint16_t*>(entries[i].rows) + id * 256, 256);
      std::transform(stored.begin(), stored.end(), row.begin(), Bf16ToFloat);
    }
    for (size_t n = 0; n < 3072; ++n) {
      const uint16_t* w = &large.projections[n * 3072 + i * 256];
      for (size_t k = 0; k < 256; ++k) sum[n] += double{Bf16ToFloat(w[k])} * row[k];
    }
  }
  const auto word = Fetch(view.word + size_t{tokens.back()} * 3072, 3072);
  for (size_t n = 0; n < 3072; ++n) sum[n] = (double{Bf16ToFloat(word[n])} + sum[n]) / 13;
  return sum;
}

}  // namespace sprat::gpu
