#include "tokenizer/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr double kUnknownPenalty{10.0};
constexpr size_t kNowhere{std::numeric_limits<size_t>::max()};
// Bytes of a word after which the part that is decided is given out.
constexpr size_t kWindow{size_t{1} << 14};

using Way = UnigramScratch::Way;

struct Piece {
  size_t begin;
  size_t end;
  uint32_t id;
};

// The last place in (begin, at] that every best way to a place in [at, last] passes, or `begin`.
// ways[i] is of the place begin + i. Walks the ways back together, the furthest first.
size_t CommonPlace(const std::vector<Way>& ways, size_t begin, size_t at, size_t last,
                   std::vector<size_t>& places) {
  places.clear();
  for (size_t place = at; place <= last; ++place) {
    if (place == at || ways[place - begin].bytes != 0) places.push_back(place);
  }
  while (places.size() > 1) {  // sorted, without repeats
    const size_t previous = places.back() - ways[places.back() - begin].bytes;
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
      : word_bytes_(word_bytes), longest_(longest), scratch_(scratch), ways_(scratch.ways) {
    const size_t ring = std::bit_ceil(longest_ + 1);
    if (scratch.scores.size() < ring) scratch.scores.resize(ring);
    scores_ = scratch.scores.data();
    mask_ = scratch.scores.size() - 1;
    scores_[0] = 0;
    const size_t needed = std::min(word_bytes_, kWindow + longest_) + 1;
    if (ways_.size() < needed) ways_.resize(needed);
    std::fill_n(ways_.begin(), word_bytes_ > kWindow ? ways_.size() : needed, kUnreached);
  }
  BestWays(const BestWays&) = delete;
  BestWays& operator=(const BestWays&) = delete;
  ~BestWays() {
    if (ways_.size() > 4 * (kWindow + longest_)) std::vector<Way>().swap(ways_);
  }

  double score(size_t place) const { return scores_[place & mask_]; }

  // A way over `start` to `end`; of equal ones the first stays.
  void Add(size_t start, size_t end, double score, uint32_t id) {
    Way& way = ways_[end - base_];
    double& best = scores_[end & mask_];
    if (way.bytes != 0 && score <= best) return;
    way = {static_cast<uint32_t>(end - start), id};
    best = score;
    furthest_ = std::max(furthest_, end);
  }

  // To be called at each place before a way starts there. Calls on_piece for pieces that are
  // decided.
  template <typename OnPiece>
  void Arrive(size_t place, const OnPiece& on_piece) {
    if (place - base_ < compact_at_) return;
    const size_t common = CommonPlace(ways_, base_, place, furthest_, scratch_.places);
    if (common > base_) {
      GiveOut(common, on_piece);
      const auto first = ways_.begin() + static_cast<ptrdiff_t>(common - base_);
      const auto last = ways_.begin() + static_cast<ptrdiff_t>(furthest_ - base_ + 1);
      std::fill(std::move(first, last, ways_.begin()), ways_.end(), kUnreached);
      base_ = common;
    }
    // Twice as far each time while nothing is decided, so that all looks together stay linear.
    compact_at_ = place - base_ + std::max(kWindow, place - base_);
    const size_t needed = std::min(word_bytes_ - base_, compact_at_ + longest_) + 1;
    if (ways_.size() < needed) ways_.resize(needed, kUnreached);
  }

  // Calls on_piece(piece) for the best way from what was given out before to `end`. Turns the way
  // round in place: each of its places then holds the piece that starts there.
  template <typename OnPiece>
  void GiveOut(size_t end, const OnPiece& on_piece) {
    Way next = ways_[end - base_];
    for (size_t place = end; place > base_;) {
      place -= next.bytes;
      std::swap(next, ways_[place - base_]);
    }
    for (size_t place = base_; place < end;) {
      const Way& way = ways_[place - base_];
      on_piece(Piece{place, place + way.bytes, way.id});
      place += way.bytes;
    }
  }

 private:
  static constexpr Way kUnreached{0, 0};

  const size_t word_bytes_;
  const size_t longest_;
  UnigramScratch& scratch_;
  std::vector<Way>& ways_;  // ways_[i] is of the place base_ + i
  double* scores_;          // scores_[place & mask_]
  size_t mask_;
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
  const auto on_piece = [&](const Piece& piece) {
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
