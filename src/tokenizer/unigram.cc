#include "tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr double kUnknownPenalty{10.0};
constexpr size_t kNowhere{std::numeric_limits<size_t>::max()};
// Bytes of a word after which the part that is decided is given out.
constexpr size_t kWindow{size_t{1} << 14};

using Node = UnigramScratch::Node;

// The last place in (begin, at] that every best way to a place in [at, last] passes, or `begin`.
// nodes[i] is the place begin + i. Walks the ways back together, the furthest first.
size_t CommonPlace(const std::vector<Node>& nodes, size_t begin, size_t at, size_t last,
                   std::vector<size_t>& places) {
  places.clear();
  for (size_t place = at; place <= last; ++place) {
    if (place == at || nodes[place - begin].start != kNowhere) places.push_back(place);
  }
  while (places.size() > 1) {  // sorted, without repeats
    const size_t previous = nodes[places.back() - begin].start;
    places.pop_back();
    const auto slot = std::lower_bound(places.begin(), places.end(), previous);
    if (slot == places.end() || *slot != previous) places.insert(slot, previous);
  }
  return places.front();
}

// The best ways to each place of a word, of which a window is kept.
class BestWays {
 public:
  BestWays(size_t word_bytes, size_t longest, UnigramScratch& scratch)
      : word_bytes_(word_bytes), longest_(longest), scratch_(scratch), nodes_(scratch.nodes) {
    const size_t needed = std::min(word_bytes_, kWindow + longest_) + 1;
    if (nodes_.size() < needed) nodes_.resize(needed);
    std::fill_n(nodes_.begin(), word_bytes_ > kWindow ? nodes_.size() : needed, kUnreached);
  }

  double score(size_t place) const { return nodes_[place - base_].score; }

  // A way over `start` to `end`; of equal ones the first stays.
  void Add(size_t start, size_t end, double score, uint32_t id) {
    Node& node = nodes_[end - base_];
    if (node.start == kNowhere || score > node.score) node = {score, start, id};
    furthest_ = std::max(furthest_, end);
  }

  // To be called at each place before a way starts there. Calls on_piece for pieces that are
  // decided.
  template <typename OnPiece>
  void Arrive(size_t place, const OnPiece& on_piece) {
    if (place - base_ < compact_at_) return;
    const size_t common = CommonPlace(nodes_, base_, place, furthest_, scratch_.places);
    if (common > base_) {
      GiveOut(common, on_piece);
      const auto first = nodes_.begin() + static_cast<ptrdiff_t>(common - base_);
      const auto last = nodes_.begin() + static_cast<ptrdiff_t>(furthest_ - base_ + 1);
      std::fill(std::move(first, last, nodes_.begin()), nodes_.end(), kUnreached);
      base_ = common;
    }
    compact_at_ = place - base_ + kWindow;
    const size_t needed = std::min(word_bytes_ - base_, compact_at_ + longest_) + 1;
    if (nodes_.size() < needed) nodes_.resize(needed, kUnreached);
  }

  // Calls on_piece(piece) for the best way from what was given out before to `end`.
  template <typename OnPiece>
  void GiveOut(size_t end, const OnPiece& on_piece) {
    std::vector<UnigramScratch::Piece>& pieces = scratch_.pieces;
    pieces.clear();
    for (size_t place = end; place > base_;) {
      const Node& node = nodes_[place - base_];
      pieces.push_back({node.start, place, node.id});
      place = node.start;
    }
    std::for_each(pieces.rbegin(), pieces.rend(), on_piece);
  }

 private:
  static constexpr Node kUnreached{0, kNowhere, 0};

  const size_t word_bytes_;
  const size_t longest_;
  UnigramScratch& scratch_;
  std::vector<Node>& nodes_;  // nodes_[i] is the place base_ + i
  size_t base_ = 0;
  size_t furthest_ = 0;          // the last place reached
  size_t compact_at_ = kWindow;  // bytes after base_
};

}  // namespace

Result<Unigram> Unigram::Build(std::vector<DoubleArray::Entry>& entries, std::vector<double> scores,
                               uint32_t unknown_id, bool byte_fallback) {
  if (unknown_id >= scores.size()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("unk_id {} is not below the {} pieces of the vocabulary", unknown_id,
                             scores.size()));
  }
  Result<DoubleArray> trie = DoubleArray::Build(entries);
  if (!trie.ok()) return std::move(trie.error());
  Unigram model;
  model.trie_ = std::move(trie).value();
  double smallest = std::numeric_limits<double>::infinity();
  for (const double score : scores) smallest = std::min(smallest, score);
  model.unknown_score_ = smallest - kUnknownPenalty;
  model.scores_ = std::move(scores);
  model.unknown_id_ = unknown_id;
  model.byte_fallback_ = byte_fallback;
  for (const auto& entry : entries) model.longest_ = std::max(model.longest_, entry.key.size());
  for (uint32_t byte = 0; byte < 256 && byte_fallback; ++byte) {
    model.byte_ids_.push_back(model.trie_.Find(fmt::format("<0x{:02X}>", byte)));
  }
  return model;
}

void Unigram::AppendUnknown(std::string_view text, IdBuffer& ids) const {
  if (const auto id = trie_.Find(text)) return ids.Append(*id);
  const auto known = [this](char byte) {
    return byte_ids_[static_cast<unsigned char>(byte)].has_value();
  };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), known)) {
    for (const char byte : text) ids.Append(*byte_ids_[static_cast<unsigned char>(byte)]);
    return;
  }
  ids.Append(unknown_id_);
}

void Unigram::Append(std::string_view word, UnigramScratch& scratch, IdBuffer& ids) const {
  size_t unknown_begin = kNowhere;  // of the unknowns that are being taken together
  const auto on_piece = [&](const UnigramScratch::Piece& piece) {
    if (piece.id == unknown_id_) {
      unknown_begin = std::min(unknown_begin, piece.begin);
      return;
    }
    if (unknown_begin != kNowhere) {
      AppendUnknown(word.substr(unknown_begin, piece.begin - unknown_begin), ids);
      unknown_begin = kNowhere;
    }
    ids.Append(piece.id);
  };
  BestWays ways(word.size(), longest_, scratch);
  for (size_t start = 0; start < word.size();) {
    ways.Arrive(start, on_piece);
    const double here = ways.score(start);
    const size_t character_end = start + Utf8Length(ByteAt(word.data(), start));
    bool has_single = false;
    DoubleArray::Cursor cursor = trie_.Root();
    for (size_t at = start; at < word.size() && cursor.Follow(ByteAt(word.data(), at));) {
      ++at;
      if (!cursor.AtKey()) continue;
      ways.Add(start, at, scores_[cursor.value()] + here, cursor.value());
      has_single = has_single || at == character_end;
    }
    if (!has_single) ways.Add(start, character_end, unknown_score_ + here, unknown_id_);
    start = character_end;
  }
  ways.GiveOut(word.size(), on_piece);
  if (unknown_begin != kNowhere) AppendUnknown(word.substr(unknown_begin), ids);
}

}  // namespace sprat
