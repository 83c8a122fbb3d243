#include "gpu/ngram_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sprat::gpu {
namespace {

// Of one block, of compute capability 9.0.
constexpr uint32_t kSharedBytes{227 * 1024};
// The division by a modulus in double precision is exact below these (HashPlan, ngram_kernels.h).
constexpr uint64_t kSumLimit{uint64_t{1} << 52};
constexpr uint64_t kQuotientLimit{uint64_t{1} << 31};

void SetScales(NgramScale scale, double rows, NgramPlan& plan) {
  switch (scale) {
    case NgramScale::kAverage:
      plan.word_scale = plan.sum_scale = static_cast<float>(1 / rows);
      break;
    case NgramScale::kFixedFactor:
      plan.word_scale = plan.sum_scale = static_cast<float>(1 / std::sqrt(rows));
      break;
    case NgramScale::kFullWord:
      plan.word_scale = 1;
      plan.sum_scale = static_cast<float>(1 / rows);
      break;
  }
}

}  // namespace

uint32_t NgramPlan::MostQueryTokens() const {
  for (const uint32_t tokens : {kNgramQueryTokens, kNgramQueryTokens / 2, kNgramQueryTokens / 4}) {
    if (QuerySharedBytes(tokens) <= kSharedBytes) return tokens;
  }
  return 0;
}

Result<NgramPlan> MakeNgramPlan(const NgramConfig& config) {
  if (config.tables() > kNgramMostTables) {
    return Error(ErrorCode::kUnsupported, fmt::format("{} n-gram tables; on a GPU at most {}",
                                                      config.tables(), kNgramMostTables));
  }
  if (config.max_order > kNgramMostOrder) {
    return Error(ErrorCode::kUnsupported, fmt::format("n-grams of {} tokens; on a GPU at most {}",
                                                      config.max_order, kNgramMostOrder));
  }
  if (config.width() % kPanel != 0) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("n-gram rows of {} values; on a GPU expected a multiple of {}",
                             config.width(), kPanel));
  }
  NgramPlan plan;
  plan.vocabulary = config.vocabulary;
  plan.hidden = config.hidden;
  plan.tables = config.tables();
  plan.width = config.width();
  plan.order = config.max_order;
  SetScales(config.scale, 1.0 + config.tables(), plan);
  plan.wide_sums = config.max_sum() >= kSumLimit ||
                   uint64_t{config.max_order} * config.vocabulary >= kQuotientLimit;
  return plan;
}

std::vector<NgramTableEntry> MakeTableEntries(const NgramConfig& config) {
  std::vector<NgramTableEntry> entries(config.tables());
  for (uint32_t i = 0; i < config.tables(); ++i) {
    const uint64_t modulus = config.rows(i);
    entries[i].modulus = modulus;
    entries[i].inverse = 1.0 / static_cast<double>(modulus);
    uint64_t power = 1 % modulus;
    for (uint32_t s = 1; s < config.order(i); ++s) {
      power = power * (config.vocabulary % modulus) % modulus;  // both factors are below 2^32
      entries[i].power[s - 1] = static_cast<uint32_t>(power);
    }
  }
  return entries;
}

std::vector<TokenRange> MakeStops(const NgramConfig& config) {
  std::vector<TokenRange> ranges = config.ignored;
  ranges.push_back({config.eos, config.eos + 1});
  std::sort(ranges.begin(), ranges.end(),
            [](const TokenRange& a, const TokenRange& b) { return a.first < b.first; });
  std::vector<TokenRange> merged;
  for (const TokenRange& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<uint16_t> PackFragments(const NgramPlan& plan, const std::vector<uint16_t>& weights) {
  const size_t h = plan.hidden;
  CHECK(weights.size() == h * h);
  std::vector<uint16_t> packed(plan.FragmentColumns() * h, 0);
  for (size_t n = 0; n < h; ++n) {
    for (size_t k = 0; k < h; ++k) packed[FragmentOffset(n, k, h)] = weights[n * h + k];
  }
  return packed;
}

std::vector<uint16_t> PackPanels(const NgramPlan& plan, const std::vector<uint16_t>& weights) {
  const size_t h = plan.hidden;
  CHECK(weights.size() == h * h);
  std::vector<uint16_t> packed(plan.PanelColumns() * h + kSplitColumns * kPanel, 0);
  for (size_t n = 0; n < h; ++n) {
    for (size_t k = 0; k < h; ++k) {
      packed[PanelOffset(n, k, plan.PanelColumns())] = weights[n * h + k];
    }
  }
  return packed;
}

}  // namespace sprat::gpu
