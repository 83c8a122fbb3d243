#include "engine/vector_check.h"

#include <bit>
#include <cstdint>
#include <string>

namespace sprat {
namespace {

// An exponent of all ones is NaN or infinity. Without a branch, so that the loop is vectorised.
bool AllFinite(std::span<const float> row) {
  constexpr uint32_t kExponent{0x7f800000};
  uint32_t found = 0;
  for (const float x : row) found |= (std::bit_cast<uint32_t>(x) & kExponent) == kExponent;
  return found == 0;
}

}  // namespace

Result<void> CheckVectors(const Embeddings& rows, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (AllFinite(rows.Row(i))) continue;
    return Error(ErrorCode::kInternal,
                 "text " + std::to_string(i) +
                     ": the vector holds NaN or infinity; --check-weights "
                     "(EngineOptions::check_weights) tells whether the model's weights do");
  }
  return {};
}

}  // namespace sprat
