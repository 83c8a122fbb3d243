// A look at token ids that a caller brings.
#ifndef SPRAT_ENGINE_TOKEN_CHECK_H_
#define SPRAT_ENGINE_TOKEN_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/model.h"
#include "sprat/result.h"

namespace sprat {

// kInvalidArgument unless `offsets` rises from 0 to `ids`, the number of ids.
Result<void> CheckOffsets(size_t ids, std::span<const size_t> offsets);

// kInvalidArgument, naming the text by `sequence`, unless there are 1 to max_sequence() ids and the
// model has a row for each.
Result<void> CheckTokens(const Model& model, size_t sequence, std::span<const uint32_t> ids);

}  // namespace sprat

#endif  // SPRAT_ENGINE_TOKEN_CHECK_H_
