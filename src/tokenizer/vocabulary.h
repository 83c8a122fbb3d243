// The tokens of a model by id.
#ifndef SPRAT_TOKENIZER_VOCABULARY_H_
#define SPRAT_TOKENIZER_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/double_array.h"

namespace sprat {

// The texts of tokens, laid end to end. Ids need not be dense. Immutable; any thread may read.
class Vocabulary {
 public:
  Vocabulary() = default;
  // entries: in any order; ids below DoubleArray::kMaxValues. If two have one id, the first in
  // alphabetical order is its text.
  explicit Vocabulary(std::span<const DoubleArray::Entry> entries);

  // The text of `id`, or nullopt if there is no such id. Valid as long as this object.
  std::optional<std::string_view> Token(uint32_t id) const;

  // One more than the largest id.
  size_t size() const { return starts_.empty() ? 0 : starts_.size() - 1; }

 private:
  std::string texts_;
  std::vector<uint32_t> starts_;  // size() + 1; token i is texts_[starts_[i] .. starts_[i + 1])
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_VOCABULARY_H_
