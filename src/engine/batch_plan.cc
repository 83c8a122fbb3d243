#include "engine/batch_plan.h"

#include <algorithm>
#include <numeric>

namespace sprat {

void PlanBatches(std::span<const size_t> lengths, size_t max_tokens, BatchPlan& plan) {
  plan.order.resize(lengths.size());
  std::iota(plan.order.begin(), plan.order.end(), 0u);
  // The index breaks ties: std::stable_sort would allocate.
  std::sort(plan.order.begin(), plan.order.end(), [&](uint32_t a, uint32_t b) {
    return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
  });
  plan.ends.clear();
  size_t tokens = 0;
  for (size_t i = 0; i < plan.order.size(); ++i) {
    const size_t length = lengths[plan.order[i]];
    if (i > 0 && tokens + length > max_tokens) {
      plan.ends.push_back(i);
      tokens = 0;
    }
    tokens += length;
  }
  if (!plan.order.empty()) plan.ends.push_back(plan.order.size());
}

}  // namespace sprat
