#include "gpu/request.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace sprat::gpu {

void PlanPieces(const TokenBatch& batch, const PieceLimits& limits, std::vector<Piece>& pieces) {
  pieces.clear();
  for (size_t i = 0; i < batch.sequences(); ++i) {
    const auto length = static_cast<uint32_t>(batch.Sequence(i).size());
    CHECK(length <= limits.tokens);
    const bool fits = !pieces.empty() && pieces.back().tokens + length <= limits.tokens &&
                      pieces.back().sequences() < limits.sequences;
    if (!fits) pieces.push_back({.first = i, .end = i, .tokens = 0});
    pieces.back().end = i + 1;
    pieces.back().tokens += length;
  }
}

uint32_t Longest(const TokenBatch& batch, const Piece& piece) {
  size_t longest = 0;
  for (size_t i = piece.first; i < piece.end; ++i) {
    longest = std::max(longest, batch.Sequence(i).size());
  }
  return static_cast<uint32_t>(longest);
}

uint32_t WriteRequest(const TokenBatch& batch, const Piece& piece, const ResultForm& form,
                      const RequestLayout& layout, std::span<std::byte> out) {
  CHECK(piece.tokens <= layout.tokens && piece.sequences() <= layout.sequences &&
        out.size() >= layout.Bytes());
  auto* items = reinterpret_cast<AttentionItem*>(out.data() + layout.ItemsAt());
  auto* ids = reinterpret_cast<uint32_t*>(out.data() + layout.IdsAt());
  auto* positions = reinterpret_cast<uint32_t*>(out.data() + layout.PositionsAt());
  auto* offsets = reinterpret_cast<uint32_t*>(out.data() + layout.OffsetsAt());
  uint32_t item = 0, token = 0;
  for (size_t i = piece.first; i < piece.end; ++i) {
    const std::span<const uint32_t> sequence = batch.Sequence(i);
    const auto length = static_cast<uint32_t>(sequence.size());
    offsets[i - piece.first] = token;
    for (uint32_t query = 0; query < length; query += kQueryRows) {
      items[item++] = {.first = token, .length = length, .query = query, .unused = 0};
    }
    std::memcpy(ids + token, sequence.data(), sequence.size_bytes());
    for (uint32_t t = 0; t < length; ++t) positions[token + t] = t;
    token += length;
  }
  offsets[piece.sequences()] = token;
  std::fill(ids + token, ids + layout.tokens, 0u);
  std::fill(positions + token, positions + layout.tokens, 0u);
  const RequestHeader header{.tokens = token,
                             .sequences = piece.sequences(),
                             .items = item,
                             .columns = form.columns,
                             .normalize = form.normalize ? 1u : 0u,
                             .unused = {}};
  std::memcpy(out.data(), &header, sizeof(header));
  return item;
}

}  // namespace sprat::gpu
