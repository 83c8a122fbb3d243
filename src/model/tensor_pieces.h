// A large tensor, piece by piece.
#ifndef SPRAT_MODEL_TENSOR_PIECES_H_
#define SPRAT_MODEL_TENSOR_PIECES_H_

#include <algorithm>
#include <cstddef>

#include "model/safetensors.h"
#include "sprat/result.h"

namespace sprat {

// Calls visit(piece, first) for the elements [first, first + n) of `tensor`, in order, where
// `piece` is a vector of n <= 2^18 of them (a megabyte of f32: it stays in the cache); lets go of
// the pages of each piece after that. `file` holds the tensor. Errors: the first one that `visit`
// returns.
template <typename Visit>
Result<void> ForEachPiece(const TensorFile& file, const Tensor& tensor, const Visit& visit) {
  constexpr size_t kPieceElements{size_t{1} << 18};
  const size_t element_bytes = ElementBytes(tensor.dtype);
  for (size_t first = 0; first < tensor.elements(); first += kPieceElements) {
    const size_t n = std::min<size_t>(kPieceElements, tensor.elements() - first);
    const Tensor piece{.dtype = tensor.dtype,
                       .shape = {n},
                       .bytes = tensor.bytes.subspan(first * element_bytes, n * element_bytes)};
    Result<void> visited = visit(piece, first);
    if (!visited.ok()) return visited;
    file.Release(piece);
  }
  return {};
}

}  // namespace sprat

#endif  // SPRAT_MODEL_TENSOR_PIECES_H_
