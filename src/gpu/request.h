// A piece of a batch in the form in which it goes to the device.
#ifndef SPRAT_GPU_REQUEST_H_
#define SPRAT_GPU_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/plan.h"
#include "model/model.h"

namespace sprat::gpu {

// Whole sequences [first, end) of a batch, computed together.
struct Piece {
  size_t first;
  size_t end;
  uint32_t tokens;

  uint32_t sequences() const { return static_cast<uint32_t>(end - first); }
};

struct PieceLimits {
  uint32_t tokens = kPieceTokens;
  uint32_t sequences = kPieceSequences;
};

// Cuts a batch into as few pieces as fill up in order. Every sequence has at most limits.tokens
// tokens. Pure; reuses the memory of `pieces`.
void PlanPieces(const TokenBatch& batch, const PieceLimits& limits, std::vector<Piece>& pieces);

// Tokens of the longest sequence of `piece`.
uint32_t Longest(const TokenBatch& batch, const Piece& piece);

// Attention items of a sequence of S tokens.
constexpr uint32_t Items(uint32_t length) { return (length + kQueryRows - 1) / kQueryRows; }

struct ResultForm {
  uint32_t columns;
  bool normalize;
};

// Writes the request of `piece` to `out`, RequestLayout::Bytes() bytes; returns its number of
// attention items. Ids and positions past the piece's tokens are zero: their rows are computed when
// T is rounded up, and must be rows of the tables.
uint32_t WriteRequest(const TokenBatch& batch, const Piece& piece, const ResultForm& form,
                      const RequestLayout& layout, std::span<std::byte> out);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_REQUEST_H_
