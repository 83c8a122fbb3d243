// An n-gram embedding's tables, word rows and projections in device memory.
#ifndef SPRAT_GPU_NGRAM_WEIGHTS_H_
#define SPRAT_GPU_NGRAM_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "gpu/ngram_kernels.h"
#include "ngram/ngram_config.h"
#include "ngram/ngram_tensors.h"
#include "ngram/row_tables.h"
#include "sprat/result.h"

namespace sprat::gpu {

class NgramWeights {
 public:
  // Copies everything to the current device, of cached tables all but their rows: every request
  // then brings `rows`. `tables` are those of `tensors`. Word rows and projections of F32 and F16
  // are rounded to bf16. Errors: as MakeNgramPlan; kDevice, kOutOfMemory.
  static Result<NgramWeights> Load(const NgramConfig& config, const NgramTensors& tensors,
                                   const RowTables& tables);

  // The same with zeros for all values, to be written by whoever can: Rows, Scales, Word.
  //   fp8: E4M3 rows with one scale a row; word: with word rows.
  static Result<NgramWeights> Allocate(const NgramConfig& config, bool fp8, bool word);

  // W [H, H], row-major bf16: column block i is W_i.
  Result<void> SetProjections(const std::vector<uint16_t>& weights);

  NgramModelView View() const;
  uint32_t eos() const { return eos_; }  // a token at which the look-back stops
  std::byte* Rows(uint32_t table) { return rows_[table].get(); }
  float* Scales(uint32_t table) { return reinterpret_cast<float*>(scales_[table].get()); }
  uint16_t* Word() { return reinterpret_cast<uint16_t*>(word_.get()); }

 private:
  Result<void> AllocateTable(uint64_t rows, uint64_t scales);
  Result<void> LoadTable(const NgramConfig& config, uint32_t index, const RowTables::Rows& from);
  Result<void> LoadWord(const Tensor& word);
  Result<void> SetEntries(const NgramConfig& config);

  NgramPlan plan_;
  bool fp8_ = false;
  uint32_t eos_ = 0;
  uint32_t stop_ranges_ = 0;
  std::vector<NgramTableEntry> hashes_;  // the scale of a whole table is set when it is loaded
  std::vector<DeviceBuffer> rows_;
  std::vector<DeviceBuffer> scales_;  // of E4M3 rows with one scale each
  DeviceBuffer entries_, stops_, word_, fragments_, panels_;
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_WEIGHTS_H_
