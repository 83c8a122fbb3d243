#include "engine/token_check.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sprat {
namespace {

Error At(size_t text, Error error) { return std::move(error).In("text " + std::to_string(text)); }

}  // namespace

Result<void> CheckOffsets(size_t ids, std::span<const size_t> offsets) {
  const bool valid = !offsets.empty() && offsets.front() == 0 && offsets.back() == ids &&
                     std::is_sorted(offsets.begin(), offsets.end());
  if (valid) return {};
  return Error(ErrorCode::kInvalidArgument,
               "offsets must rise from 0 to the number of ids, " + std::to_string(ids));
}

Result<void> CheckTokens(const Model& model, size_t sequence, std::span<const uint32_t> ids) {
  const size_t limit = model.max_sequence();
  if (ids.empty() || ids.size() > limit) {
    return At(sequence, Error(ErrorCode::kInvalidArgument, std::to_string(ids.size()) +
                                                               " token ids, expected 1 to " +
                                                               std::to_string(limit)));
  }
  const size_t rows = model.vocabulary_rows();
  for (const uint32_t id : ids) {
    if (id >= rows) {
      return At(sequence, Error(ErrorCode::kInvalidArgument, "token id " + std::to_string(id) +
                                                                 ", expected less than " +
                                                                 std::to_string(rows)));
    }
  }
  return {};
}

}  // namespace sprat
