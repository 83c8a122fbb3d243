#include "tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr uint32_t kNone{std::numeric_limits<uint32_t>::max()};
constexpr uint32_t kNoRank{kNone};

// Heap order: std::push_heap keeps the largest in front, that is, the one merged first.
bool MergedLater(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

size_t HashPair(uint64_t pair) {
  const uint64_t mixed = pair * 0x9E3779B97F4A7C15;
  return static_cast<size_t>(mixed ^ mixed >> 32);
}

}  // namespace

Result<Bpe> Bpe::Build(std::vector<DoubleArray::Entry>& entries,
                       const std::vector<std::pair<std::string_view, std::string_view>>& merges,
                       const BpeOptions& options) {
  Result<DoubleArray> trie = DoubleArray::Build(entries);
  if (!trie.ok()) return std::move(trie.error());
  Bpe model;
  model.options_ = options;
  model.trie_ = std::move(trie).value();
  model.merges_.resize(std::bit_ceil(2 * merges.size() + 2), Merge{0, kNoRank, 0});
  const size_t mask = model.merges_.size() - 1;
  std::string whole;
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    whole = left;
    whole += right.substr(std::min(options.continuing_prefix.size(), right.size()));
    const auto left_id = model.trie_.Find(left);
    const auto right_id = model.trie_.Find(right);
    const auto id = model.trie_.Find(whole);
    if (!left_id || !right_id || !id) {
      return Error(
          ErrorCode::kCorrupt,
          fmt::format("merge {} ('{}' and '{}'): '{}' is not in the vocabulary", rank, left, right,
                      !left_id    ? left
                      : !right_id ? right
                                  : whole));
    }
    const uint64_t pair = uint64_t{*left_id} << 32 | *right_id;
    size_t slot = HashPair(pair) & mask;
    while (model.merges_[slot].rank != kNoRank && model.merges_[slot].pair != pair) {
      slot = (slot + 1) & mask;
    }
    model.merges_[slot] = {pair, rank, *id};  // of equal pairs the last counts
  }
  if (options.unknown_token) {
    model.unknown_id_ = model.trie_.Find(*options.unknown_token);
    if (!model.unknown_id_) {
      return Error(
          ErrorCode::kCorrupt,
          fmt::format("the unknown token '{}' is not in the vocabulary", *options.unknown_token));
    }
  }
  for (uint32_t byte = 0; byte < 256 && options.byte_fallback; ++byte) {
    model.byte_ids_.push_back(model.trie_.Find(fmt::format("<0x{:02X}>", byte)));
  }
  return model;
}

const Bpe::Merge* Bpe::FindMerge(uint32_t left, uint32_t right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  const size_t mask = merges_.size() - 1;
  for (size_t slot = HashPair(pair) & mask;; slot = (slot + 1) & mask) {
    const Merge& merge = merges_[slot];
    if (merge.rank == kNoRank) return nullptr;
    if (merge.pair == pair) return &merge;
  }
}

std::vector<Bpe::Merge> Bpe::SortedMerges() const {
  std::vector<Merge> merges;
  for (const Merge& merge : merges_) {
    if (merge.rank != kNoRank) merges.push_back(merge);
  }
  std::sort(merges.begin(), merges.end(),
            [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
  return merges;
}

void Bpe::AddSymbol(uint32_t id, BpeScratch& scratch) const {
  const auto position = static_cast<uint32_t>(scratch.symbols.size());
  if (position > 0) scratch.symbols.back().next = position;
  scratch.symbols.push_back({id, position == 0 ? kNone : position - 1, kNone, false});
}

void Bpe::AddCharacters(std::string_view word, BpeScratch& scratch) const {
  bool unknown_open = false;  // an unknown symbol that waits, for others to be fused with it
  const auto close_unknown = [&] {
    if (unknown_open) AddSymbol(*unknown_id_, scratch);
    unknown_open = false;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t length = Utf8Length(ByteAt(word.data(), at));
    std::string_view piece = word.substr(at, length);
    const bool prefixed = at > 0 && !options_.continuing_prefix.empty();
    const bool suffixed = at + length == word.size() && !options_.end_of_word_suffix.empty();
    if (prefixed || suffixed) {
      scratch.piece = prefixed ? options_.continuing_prefix : "";
      scratch.piece += piece;
      if (suffixed) scratch.piece += options_.end_of_word_suffix;
      piece = scratch.piece;
    }
    at += length;
    if (const auto id = trie_.Find(piece)) {
      close_unknown();
      AddSymbol(*id, scratch);
      continue;
    }
    const auto known = [this](char byte) {
      return byte_ids_[static_cast<unsigned char>(byte)].has_value();
    };
    if (options_.byte_fallback && std::all_of(piece.begin(), piece.end(), known)) {
      // As in the reference, an unknown that waits comes after the bytes.
      for (const char byte : piece)
        AddSymbol(*byte_ids_[static_cast<unsigned char>(byte)], scratch);
      continue;
    }
    if (!unknown_id_) continue;
    if (!options_.fuse_unknown) close_unknown();
    unknown_open = true;
  }
  close_unknown();
}

// The merge of the symbol at `left` with the next one, if there is one.
void Bpe::AddCandidate(uint32_t left, BpeScratch& scratch) const {
  if (left == kNone || scratch.symbols[left].next == kNone) return;
  const auto& symbol = scratch.symbols[left];
  const Merge* merge = FindMerge(symbol.id, scratch.symbols[symbol.next].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, left, merge->id});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), MergedLater);
}

void Bpe::MergeAll(BpeScratch& scratch) const {
  auto& [symbols, heap, piece] = scratch;
  heap.clear();
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) AddCandidate(i, scratch);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), MergedLater);
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[best.position];
    if (left.gone || left.next == kNone) continue;
    BpeScratch::Symbol& right = symbols[left.next];
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;  // a neighbour has changed meanwhile
    left.id = best.id;
    right.gone = true;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = best.position;
    AddCandidate(left.previous, scratch);
    AddCandidate(best.position, scratch);
  }
}

void Bpe::Append(std::string_view word, BpeScratch& scratch, IdBuffer& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = trie_.Find(word)) return ids.Append(*id);
  }
  scratch.symbols.clear();
  AddCharacters(word, scratch);
  MergeAll(scratch);
  for (const auto& symbol : scratch.symbols) {
    if (!symbol.gone) ids.Append(symbol.id);
  }
}

}  // namespace sprat
