// The n-gram embedding on the CPU, step by step as the kernels compute it: the same functions for
// hash and layout, the same packed projections, the same order of additions.
#ifndef SPRAT_GPU_NGRAM_TWIN_FOR_TEST_H_
#define SPRAT_GPU_NGRAM_TWIN_FOR_TEST_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/ngram_plan.h"
#include "gpu/ngram_view.h"
#include "ngram/ngram_config.h"
#include "ngram/row_tables.h"
#include "sprat/ngram.h"

namespace sprat::gpu {

// What a kernel reads the projections from, and how many columns it does at a time.
struct TwinTile {
  bool fragments;
  uint32_t columns;
};
inline constexpr TwinTile kTwinTiles[] = {{true, kQueryColumns},
                                          {false, kSplitColumns / 2},
                                          {false, kSplitColumns},
                                          {false, kBatchColumns}};

class NgramTwin {
 public:
  // tables: in memory, outlive this object. projections: W [H, H] bf16, row-major. word: [V, H]
  // bf16, or empty.
  NgramTwin(const NgramConfig& config, const RowTables& tables,
            const std::vector<uint16_t>& projections, std::vector<uint16_t> word);

  // T x G.
  std::vector<uint32_t> Ids(const NgramRequest& request) const;
  // The rows of the batch in panels of BatchCapacity(T) rows.
  std::vector<uint16_t> Gather(const NgramRequest& request) const;
  // T x H bf16. Products are exact; a sum is rounded to f32 after every 16 of them (the tensor
  // cores round differently within the 16).
  std::vector<uint16_t> Embed(const NgramRequest& request, const TwinTile& tile) const;

  const NgramModelView& view() const { return view_; }

 private:
  float PartOfSum(std::span<const float> row, size_t n, uint32_t part, const TwinTile& tile) const;

  NgramModelView view_;
  std::vector<NgramTableEntry> entries_;
  std::vector<TokenRange> stops_;
  std::vector<uint16_t> word_, fragments_, panels_;
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_TWIN_FOR_TEST_H_
