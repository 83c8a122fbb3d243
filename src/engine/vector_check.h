// The last look at vectors before they leave the engine.
#ifndef SPRAT_ENGINE_VECTOR_CHECK_H_
#define SPRAT_ENGINE_VECTOR_CHECK_H_

#include <cstddef>

#include "sprat/engine.h"
#include "sprat/result.h"

namespace sprat {

// kInternal naming the first of the rows [first, first + count) that holds NaN or infinity: its
// cosines would be nonsense that looks like an answer.
Result<void> CheckVectors(const Embeddings& rows, size_t first, size_t count);

}  // namespace sprat

#endif  // SPRAT_ENGINE_VECTOR_CHECK_H_
