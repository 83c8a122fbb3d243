// Which texts run together: a pure function of their lengths.
#ifndef SPRAT_ENGINE_BATCH_PLAN_H_
#define SPRAT_ENGINE_BATCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sprat {

// A partition of n sequences into batches: batch b holds the sequences order[ends[b - 1]] to
// order[ends[b] - 1] (from order[0] for the first). Reused between calls.
struct BatchPlan {
  std::vector<uint32_t> order;  // a permutation of 0 .. n-1, longest sequence first
  std::vector<size_t> ends;

  size_t batches() const { return ends.size(); }
  std::span<const uint32_t> Batch(size_t b) const {
    const size_t first = b == 0 ? 0 : ends[b - 1];
    return {order.data() + first, ends[b] - first};
  }
};

// Sorts the sequences by length, so that threads that share a batch get equal work, and cuts them
// into batches of at most `max_tokens` tokens; a longer sequence is a batch of its own.
//   lengths: tokens of each sequence; ties keep their order.
void PlanBatches(std::span<const size_t> lengths, size_t max_tokens, BatchPlan& plan);

}  // namespace sprat

#endif  // SPRAT_ENGINE_BATCH_PLAN_H_
