// Texts of any lengths through a model: batches of alike lengths, vectors where they belong.
#ifndef SPRAT_ENGINE_SORTED_BATCHES_H_
#define SPRAT_ENGINE_SORTED_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine/batch_plan.h"
#include "model/model.h"

namespace sprat {

// Reused: nothing is allocated after the first run of a size. Not for several threads at once.
class SortedBatches {
 public:
  void clear();

  // Another text: its ids, and the row that its vector goes to. Both must live until Run.
  void Add(std::span<const uint32_t> ids, float* row);

  // What a run asks of the model.
  struct Call {
    OutputForm form;
    size_t columns = 0;            // of each row
    size_t max_tokens = 0;         // in a batch; a longer text is a batch of its own
    std::mutex* device = nullptr;  // locked for each batch, so that others run in between; nullptr:
                                   // the caller holds it
  };

  // Computes the vectors of all texts that were added. Errors: the model's; then no row is
  // meaningful.
  Result<void> Run(Model& model, const Call& call);

 private:
  std::vector<std::span<const uint32_t>> texts_;
  std::vector<size_t> lengths_;
  std::vector<float*> rows_;
  BatchPlan plan_;
  TokenBatch batch_;
  std::vector<float> vectors_;  // of a batch, in its order
};

}  // namespace sprat

#endif  // SPRAT_ENGINE_SORTED_BATCHES_H_
