#include "engine/sorted_batches.h"

#include <algorithm>

namespace sprat {

void SortedBatches::clear() {
  texts_.clear();
  lengths_.clear();
  rows_.clear();
}

void SortedBatches::Add(std::span<const uint32_t> ids, float* row) {
  texts_.push_back(ids);
  lengths_.push_back(ids.size());
  rows_.push_back(row);
}

Result<void> SortedBatches::Run(Model& model, const Call& call) {
  PlanBatches(lengths_, call.max_tokens, plan_);
  for (size_t b = 0; b < plan_.batches(); ++b) {
    const std::span<const uint32_t> members = plan_.Batch(b);
    batch_.clear();
    for (const uint32_t i : members) batch_.Append(texts_[i]);
    vectors_.resize(std::max(vectors_.size(), members.size() * call.columns));
    std::unique_lock<std::mutex> device;
    if (call.device != nullptr) device = std::unique_lock(*call.device);
    Result<void> embedded =
        model.Embed(batch_, call.form, {vectors_.data(), members.size(), call.columns});
    if (!embedded.ok()) return embedded;
    if (device.owns_lock()) device.unlock();
    for (size_t i = 0; i < members.size(); ++i) {
      std::copy_n(vectors_.data() + i * call.columns, call.columns, rows_[members[i]]);
    }
  }
  return {};
}

}  // namespace sprat
