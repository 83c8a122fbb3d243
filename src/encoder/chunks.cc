#include "encoder/chunks.h"

#include <algorithm>

namespace sprat {
namespace {

// With fewer tokens a thread, streaming all weights through every core costs more than the barriers
// of working together.
constexpr size_t kTokensToWorkAlone{64};

}  // namespace

void PlanChunks(std::span<const size_t> offsets, const ChunkLimits& limits, ChunkPlan& plan) {
  plan.chunks.clear();
  plan.alone = 0;
  const size_t sequences = offsets.size() - 1;
  if (sequences == 0) return;
  const size_t tokens = offsets.back();
  const bool together = limits.threads > 1 && tokens < limits.threads * kTokensToWorkAlone;
  const size_t round = together ? 1 : limits.threads;
  size_t wanted = (tokens + limits.tokens * round - 1) / (limits.tokens * round) * round;
  if (round > 1) ++wanted;
  const size_t target = std::max<size_t>(1, (tokens + wanted - 1) / std::max<size_t>(1, wanted));
  for (size_t first = 0; first < sequences;) {
    size_t end = first + 1;
    while (end < sequences && offsets[end] - offsets[first] < target &&
           offsets[end + 1] - offsets[first] <= limits.tokens) {
      ++end;
    }
    plan.chunks.push_back({first, end});
    first = end;
  }
  if (!together) plan.alone = plan.chunks.size() / limits.threads * limits.threads;
}

}  // namespace sprat
