#include "gpu/ngram_twin_for_test.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "ngram/dispatch.h"
#include "ngram/number_formats.h"

namespace sprat::gpu {

NgramTwin::NgramTwin(const NgramConfig& config, const RowTables& tables,
                     const std::vector<uint16_t>& projections, std::vector<uint16_t> word)
    : entries_(MakeTableEntries(config)), stops_(MakeStops(config)), word_(std::move(word)) {
  view_.plan = MakeNgramPlan(config).value();
  fragments_ = PackFragments(view_.plan, projections);
  panels_ = PackPanels(view_.plan, projections);
  for (uint32_t i = 0; i < config.tables(); ++i) {
    const RowTables::Rows rows = tables.RowsOf(i);
    entries_[i].rows = rows.rows;
    entries_[i].scales = rows.row_scales;
    entries_[i].scale = rows.scale;
  }
  view_.fp8 = tables.encoding() == RowEncoding::kE4m3;
  view_.entries = entries_.data();
  view_.stops = stops_.data();
  view_.stop_ranges = static_cast<uint32_t>(stops_.size());
  view_.word = word_.empty() ? nullptr : word_.data();
  view_.fragments = fragments_.data();
  view_.panels = panels_.data();
}

std::vector<uint32_t> NgramTwin::Ids(const NgramRequest& request) const {
  std::vector<uint32_t> ids;
  for (uint32_t t = 0; t < request.tokens; ++t) {
    const NgramWindow window = LoadWindow(view_, request, t);
    for (const NgramTableEntry& entry : entries_) {
      ids.push_back(TableRow(view_.plan, entry, window));
    }
  }
  return ids;
}

std::vector<uint16_t> NgramTwin::Gather(const NgramRequest& request) const {
  const NgramPlan& plan = view_.plan;
  const uint32_t capacity = BatchCapacity(request.tokens);
  const std::vector<uint32_t> ids = Ids(request);
  std::vector<uint16_t> panels(size_t{capacity} * plan.hidden, 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    const NgramTableEntry& entry = entries_[i % plan.tables];
    const std::byte* row = entry.rows + size_t{ids[i]} * plan.width * (view_.fp8 ? 1 : 2);
    std::vector<uint16_t> values(plan.width);
    if (view_.fp8) {
      const float scale = entry.scales != nullptr ? entry.scales[ids[i]] : entry.scale;
      ScalarNgramKernels().decode_e4m3(reinterpret_cast<const uint8_t*>(row), scale, plan.width,
                                       values.data());
    } else {
      std::memcpy(values.data(), row, plan.width * 2);
    }
    for (uint32_t k = 0; k < plan.width; ++k) {
      panels.at(PanelOffset(i / plan.tables, i % plan.tables * plan.width + k, capacity)) =
          values[k];
    }
  }
  return panels;
}

float NgramTwin::PartOfSum(std::span<const float> row, size_t n, uint32_t part,
                           const TwinTile& tile) const {
  const NgramPlan& plan = view_.plan;
  float sum = 0;
  for (size_t k = plan.PartBegin(part) * plan.width; k < plan.PartBegin(part + 1) * plan.width;
       k += 16) {
    double exact = double{sum};
    for (size_t i = k; i < k + 16; ++i) {
      const uint16_t w = tile.fragments ? fragments_.at(FragmentOffset(n, i, plan.hidden))
                                        : panels_.at(PanelOffset(n, i, plan.PanelColumns()));
      exact += double{row[i]} * double{Bf16ToFloat(w)};
    }
    sum = static_cast<float>(exact);
  }
  return sum;
}

std::vector<uint16_t> NgramTwin::Embed(const NgramRequest& request, const TwinTile& tile) const {
  const NgramPlan& plan = view_.plan;
  const uint32_t capacity = BatchCapacity(request.tokens);
  const std::vector<uint16_t> gathered = Gather(request);
  std::vector<uint16_t> out(size_t{request.tokens} * plan.hidden);
  std::vector<float> row(plan.hidden);
  for (uint32_t t = 0; t < request.tokens; ++t) {
    for (uint32_t k = 0; k < plan.hidden; ++k) {
      row[k] = Bf16ToFloat(gathered.at(PanelOffset(t, k, capacity)));
    }
    const uint16_t* word = WordRow(view_, request, t);
    for (size_t first = 0; first < plan.hidden; first += tile.columns) {
      for (size_t n = first; n < first + tile.columns; ++n) {  // a tile is computed to its end
        float total = -0.0f;
        for (uint32_t part = 0; part < kNgramParts; ++part) total += PartOfSum(row, n, part, tile);
        if (n >= plan.hidden) continue;
        out[t * size_t{plan.hidden} + n] =
            FloatToBf16(std::fma(plan.sum_scale, total, plan.word_scale * Bf16ToFloat(word[n])));
      }
    }
  }
  return out;
}

}  // namespace sprat::gpu
