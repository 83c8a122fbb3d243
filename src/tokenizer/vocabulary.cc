#include "tokenizer/vocabulary.h"

#include <algorithm>

namespace sprat {

Vocabulary::Vocabulary(std::span<const DoubleArray::Entry> entries) {
  size_t ids = 0;
  for (const auto& entry : entries) ids = std::max<size_t>(ids, entry.value + size_t{1});
  std::vector<const DoubleArray::Entry*> by_id(ids);
  for (const auto& entry : entries) {
    const DoubleArray::Entry*& slot = by_id[entry.value];
    if (slot == nullptr || entry.key < slot->key) slot = &entry;
  }
  size_t bytes = 0;
  for (const auto* entry : by_id) bytes += entry == nullptr ? 0 : entry->key.size();
  texts_.reserve(bytes);
  starts_.reserve(ids + 1);
  for (const auto* entry : by_id) {
    starts_.push_back(static_cast<uint32_t>(texts_.size()));
    if (entry != nullptr) texts_ += entry->key;
  }
  starts_.push_back(static_cast<uint32_t>(texts_.size()));
}

std::optional<std::string_view> Vocabulary::Token(uint32_t id) const {
  if (id >= size() || starts_[id] == starts_[id + 1]) return std::nullopt;
  return std::string_view(texts_).substr(starts_[id], starts_[id + 1] - starts_[id]);
}

}  // namespace sprat
