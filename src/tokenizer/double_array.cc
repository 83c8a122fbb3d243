#include "tokenizer/double_array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace sprat {
namespace {

constexpr size_t kLabels{256};
constexpr size_t kMaxUnits{size_t{1} << 23};  // what 23 bits of base can reach
constexpr uint32_t kEndsHere{0x100};
constexpr uint32_t kNoLabel{0xFF};  // of values and unused units: no byte of a key leads there

// The first eight bytes as a number that orders like the string.
uint64_t Prefix(std::string_view key) {
  char bytes[8] = {};
  std::memcpy(bytes, key.data(), std::min<size_t>(8, key.size()));
  uint64_t prefix;
  std::memcpy(&prefix, bytes, 8);
  return __builtin_bswap64(prefix);
}

// Sorts by key; most comparisons touch only the prefix. Of equal keys the last given stays.
void SortEntries(std::vector<DoubleArray::Entry>& entries) {
  struct Item {
    uint64_t prefix;
    uint32_t index;
  };
  std::vector<Item> order(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    order[i] = {Prefix(entries[i].key), static_cast<uint32_t>(i)};
  }
  std::sort(order.begin(), order.end(), [&entries](const Item& a, const Item& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const int compared = entries[a.index].key.compare(entries[b.index].key);
    return compared != 0 ? compared < 0 : a.index > b.index;
  });
  std::vector<DoubleArray::Entry> sorted;
  sorted.reserve(entries.size());
  for (const Item& item : order) {
    const DoubleArray::Entry& entry = entries[item.index];
    if (sorted.empty() || sorted.back().key != entry.key) sorted.push_back(entry);
  }
  entries = std::move(sorted);
}

// Fills the array depth first. A free base is looked for 64 candidates at a time: bit i of the
// conjunction of free[p + label ..] over the labels says that base p + i has room for all of them.
class Builder {
 public:
  explicit Builder(std::span<const DoubleArray::Entry> entries) : entries_(entries) { Grow(); }

  // False if the array would exceed kMaxUnits.
  bool Build() {
    Take(0);
    if (!entries_.empty()) open_.push_back({0, 0, entries_.size(), 0});
    while (!open_.empty()) {
      const Node node = open_.back();
      open_.pop_back();
      if (!Expand(node)) return false;
    }
    while (units_.size() > kLabels && IsFree(units_.size() - 1)) units_.pop_back();
    units_.resize(units_.size() + kLabels, kNoLabel);  // so that every base + byte is inside
    units_.shrink_to_fit();
    return true;
  }

  std::vector<uint32_t> TakeUnits() { return std::move(units_); }

 private:
  // Units past the end are free; the bitmaps are one word longer than the units need.
  void Grow() {
    const size_t size = std::max<size_t>(4 * kLabels, units_.size() + units_.size() / 4);
    const size_t rounded = size / 64 * 64;
    units_.resize(rounded, kNoLabel);
    taken_.resize(rounded / 64 + kLabels / 64 + 2);
    based_.resize(taken_.size());
  }

  static uint64_t Window(const std::vector<uint64_t>& bits, size_t at) {
    const size_t word = at / 64;
    const size_t shift = at % 64;
    return shift == 0 ? bits[word] : bits[word] >> shift | bits[word + 1] << (64 - shift);
  }

  bool IsFree(size_t unit) const { return (taken_[unit / 64] >> unit % 64 & 1) == 0; }
  void Take(size_t unit) { taken_[unit / 64] |= uint64_t{1} << unit % 64; }

  // A base whose units base + label are all free; kMaxUnits if there is none.
  size_t FindBase(std::span<const unsigned char> labels) {
    // Nodes with many children start where such a node last found room; what they skip is filled by
    // the nodes with few.
    size_t& hint = hints_[std::min<size_t>(hints_.size() - 1, std::bit_width(labels.size()) - 1)];
    for (size_t at = hint;; at += 64) {
      while (at + 64 + kLabels > units_.size()) {
        if (units_.size() >= kMaxUnits) return kMaxUnits;
        Grow();
      }
      uint64_t fits = ~Window(based_, at);
      for (const unsigned char label : labels) {
        fits &= ~Window(taken_, at + label);
        if (fits == 0) break;
      }
      if (fits == 0) continue;
      hint = at;
      return at + static_cast<size_t>(std::countr_zero(fits));
    }
  }

  // A node still without children: its entries [first, last) share their first `depth` bytes.
  struct Node {
    size_t unit;
    size_t first;
    size_t last;
    size_t depth;
  };

  // Gives `node` its base and puts its children on `open_`.
  bool Expand(const Node& node) {
    std::array<unsigned char, kLabels> labels;
    std::array<size_t, kLabels + 1> starts;
    size_t children = 0;
    const bool ends = entries_[node.first].key.size() == node.depth;
    if (ends) {  // the value takes the place of a child by byte 0
      labels[0] = 0;
      starts[0] = node.first;
      children = 1;
    }
    for (size_t i = node.first + (ends ? 1 : 0); i < node.last; ++i) {
      const auto label = static_cast<unsigned char>(entries_[i].key[node.depth]);
      if (children > 0 && labels[children - 1] == label) continue;
      labels[children] = label;
      starts[children] = i;
      ++children;
    }
    starts[children] = node.last;
    const size_t base = FindBase({labels.data(), children});
    if (base + kLabels > kMaxUnits) return false;
    based_[base / 64] |= uint64_t{1} << base % 64;
    units_[node.unit] =
        static_cast<uint32_t>(base << 9) | (ends ? kEndsHere : 0) | (units_[node.unit] & kNoLabel);
    for (size_t i = children; i-- > 0;) {
      const size_t unit = base + labels[i];
      Take(unit);
      if (labels[i] == 0) {
        units_[unit] = entries_[node.first].value << 9 | kNoLabel;
      } else {
        units_[unit] = labels[i];
        open_.push_back({unit, starts[i], starts[i + 1], node.depth + 1});
      }
    }
    return true;
  }

  std::span<const DoubleArray::Entry> entries_;
  std::vector<uint32_t> units_;
  std::vector<uint64_t> taken_;  // bit i: unit i is in use
  std::vector<uint64_t> based_;  // bit i: i is some node's base
  std::array<size_t, 6> hints_ = {};
  std::vector<Node> open_;
};

}  // namespace

Result<DoubleArray> DoubleArray::Build(std::vector<Entry>& entries) {
  SortEntries(entries);
  for (const Entry& entry : entries) {
    if (entry.key.empty() || entry.key.find('\0') != std::string_view::npos ||
        entry.key.find('\xFF') != std::string_view::npos) {
      return Error(ErrorCode::kUnsupported,
                   "token " + std::to_string(entry.value) + " is empty or has a byte 0 or 255");
    }
    if (entry.value >= kMaxValues) {
      return Error(ErrorCode::kUnsupported,
                   "id " + std::to_string(entry.value) + " is above the limit of 8388607");
    }
  }
  Builder builder(entries);
  if (!builder.Build()) {
    return Error(ErrorCode::kUnsupported, "the vocabulary needs more than 2^23 trie nodes");
  }
  DoubleArray array;
  array.units_ = builder.TakeUnits();
  return array;
}

std::optional<uint32_t> DoubleArray::Find(std::string_view key) const {
  Cursor cursor = Root();
  for (const char byte : key) {
    if (!cursor.Follow(static_cast<unsigned char>(byte))) return std::nullopt;
  }
  if (!cursor.AtKey()) return std::nullopt;
  return cursor.value();
}

}  // namespace sprat
