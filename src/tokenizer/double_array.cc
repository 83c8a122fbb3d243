#include "tokenizer/double_array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace sprat {
namespace {

constexpr size_t kLabels{256};
constexpr size_t kMaxUnits{size_t{1} << 23};  // what 23 bits of base can reach
constexpr uint32_t kEndsHere{0x100};
constexpr uint32_t kNoLabel{0xFF};  // of values and unused units: no byte of a key leads there

// Bytes [depth, depth + 8) of `key` as a number that orders like them, zero past its end.
uint64_t EightBytes(std::string_view key, size_t depth) {
  if (depth >= key.size()) return 0;
  char bytes[8] = {};
  std::memcpy(bytes, key.data() + depth, std::min<size_t>(8, key.size() - depth));
  uint64_t number;
  std::memcpy(&number, bytes, 8);
  return __builtin_bswap64(number);
}

// An entry with the begin of its key at hand: keys lie anywhere in memory, and most are short.
struct Key {
  uint64_t head[2];  // its first 16 bytes
  DoubleArray::Entry entry;
  uint32_t index;  // among the entries given

  size_t size() const { return entry.key.size(); }
  unsigned char Byte(size_t at) const {
    if (at < 16) return static_cast<unsigned char>(head[at / 8] >> (56 - at % 8 * 8));
    return static_cast<unsigned char>(entry.key[at]);
  }
  // For keys with equal head[0].
  friend bool operator<(const Key& a, const Key& b) {
    if (a.head[1] != b.head[1]) return a.head[1] < b.head[1];
    const int compared = a.entry.key.compare(b.entry.key);
    return compared != 0 ? compared < 0 : a.index < b.index;
  }
};

struct SortItem {
  uint64_t head;
  uint32_t index;
};

// Least significant byte first; stable. `spare` is as long as `items`.
void RadixSort(std::span<SortItem> items, std::span<SortItem> spare) {
  std::array<std::array<uint32_t, kLabels>, 8> counts = {};
  for (const SortItem& item : items) {
    for (size_t byte = 0; byte < 8; ++byte) ++counts[byte][item.head >> 8 * byte & 0xFF];
  }
  std::span<SortItem> from = items, to = spare;
  for (size_t byte = 0; byte < 8; ++byte) {
    auto& places = counts[byte];
    if (places[items[0].head >> 8 * byte & 0xFF] == items.size()) continue;  // all alike
    uint32_t place = 0;
    for (uint32_t& count : places) place += std::exchange(count, place);
    for (const SortItem& item : from) to[places[item.head >> 8 * byte & 0xFF]++] = item;
    std::swap(from, to);
  }
  if (from.data() != items.data()) std::copy(from.begin(), from.end(), items.begin());
}

// Arrays here are filled as they are made, not before: huge pages, and zeroes that are overwritten,
// would cost more than they save when a model is opened once.
// The entries as keys in order. Of equal ones the last given stays.
std::vector<Key> SortKeys(std::span<const DoubleArray::Entry> entries) {
  const auto memory = std::make_unique_for_overwrite<SortItem[]>(2 * entries.size());
  const std::span<SortItem> items(memory.get(), entries.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i] = {EightBytes(entries[i].key, 0), static_cast<uint32_t>(i)};
  }
  if (!items.empty()) RadixSort(items, {memory.get() + entries.size(), entries.size()});
  std::vector<Key> keys;
  keys.reserve(entries.size());
  for (const SortItem& item : items) {
    const DoubleArray::Entry& entry = entries[item.index];
    keys.push_back({{item.head, EightBytes(entry.key, 8)}, entry, item.index});
  }
  size_t kept = 0;
  for (auto first = keys.begin(), last = first; first != keys.end(); first = last) {
    while (last != keys.end() && last->head[0] == first->head[0]) ++last;
    std::sort(first, last);
    for (auto key = first; key != last; ++key) {
      if (key != first && key->entry.key == key[-1].entry.key) --kept;
      keys[kept++] = *key;
    }
  }
  keys.erase(keys.begin() + static_cast<ptrdiff_t>(kept), keys.end());
  return keys;
}

// Fills the array depth first. A free base is looked for 64 candidates at a time: bit i of the
// conjunction of free[p + label ..] over the labels says that base p + i has room for all of them.
class Builder {
 public:
  // keys: sorted, distinct. units: kMaxUnits; used as far as needed.
  Builder(std::span<const Key> keys, std::span<uint32_t> units) : keys_(keys), units_(units) {
    Grow();
  }

  // The units of the finished array.
  Result<std::vector<uint32_t>> Build() {
    Take(0);
    if (!keys_.empty()) open_.push_back({0, 0, keys_.size(), 0});
    while (!open_.empty()) {
      const Node node = open_.back();
      open_.pop_back();
      Result<void> expanded = Expand(node);
      if (!expanded.ok()) return std::move(expanded.error());
    }
    while (size_ > kLabels && IsFree(size_ - 1)) --size_;
    std::vector<uint32_t> units;
    units.reserve(size_ + kLabels);
    units.assign(units_.begin(), units_.begin() + static_cast<ptrdiff_t>(size_));
    units.resize(size_ + kLabels, kNoLabel);  // so that every base + byte is inside
    return units;
  }

 private:
  // Units past the end are free; the bitmaps are one word longer than the units need.
  void Grow() {
    const size_t size = std::min(kMaxUnits, std::max<size_t>(4 * kLabels, size_ + size_ / 4));
    const size_t rounded = size / 64 * 64;
    std::fill(units_.begin() + static_cast<ptrdiff_t>(size_),
              units_.begin() + static_cast<ptrdiff_t>(rounded), kNoLabel);
    size_ = rounded;
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
      while (at + 64 + kLabels > size_) {
        if (size_ >= kMaxUnits) return kMaxUnits;
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

  // A node still without children: its keys [first, last) share their first `depth` bytes.
  struct Node {
    size_t unit;
    size_t first;
    size_t last;
    size_t depth;
  };

  unsigned char Label(size_t key, size_t depth) const { return keys_[key].Byte(depth); }

  // The end of the keys in [first, last) that go on with the same byte as `first`. Looks at few of
  // many: the first bytes are those of nearly all.
  size_t EndOfLabel(size_t first, size_t last, size_t depth) const {
    const unsigned char label = Label(first, depth);
    size_t step = 1;
    while (first + step < last && Label(first + step, depth) == label) {
      first += step;
      step *= 2;
    }
    // `first` has the label; first + step, if it is in range, has not.
    size_t end = std::min(first + step, last);
    while (first + 1 < end) {
      const size_t middle = first + (end - first) / 2;
      (Label(middle, depth) == label ? first : end) = middle;
    }
    return end;
  }

  // Gives `unit` its base, with children by `labels`; returns the base.
  //   ends: labels[0] is 0, for the value of `key`.
  Result<size_t> SetBase(size_t unit, std::span<const unsigned char> labels, bool ends,
                         size_t key) {
    const size_t base = FindBase(labels);
    if (base + kLabels > kMaxUnits) {
      return Error(ErrorCode::kUnsupported, "the vocabulary needs more than 2^23 trie nodes");
    }
    based_[base / 64] |= uint64_t{1} << base % 64;
    units_[unit] =
        static_cast<uint32_t>(base << 9) | (ends ? kEndsHere : 0) | (units_[unit] & kNoLabel);
    for (size_t i = ends ? 1 : 0; i < labels.size(); ++i) {
      Take(base + labels[i]);
      units_[base + labels[i]] = labels[i];
    }
    if (ends) {  // the value is in the place of a child by byte 0
      Take(base);
      units_[base] = keys_[key].entry.value << 9 | kNoLabel;
    }
    return base;
  }

  static bool IsReserved(unsigned char label) { return label == 0 || label == kNoLabel; }

  Error BadToken(size_t key) const {
    return Error(ErrorCode::kUnsupported,
                 "token " + std::to_string(keys_[key].entry.value) + " has a byte 0 or 255");
  }

  // Gives `node` its base and puts its children on `open_`.
  Result<void> Expand(const Node& node) {
    if (node.first + 1 == node.last) return ExpandTail(node);
    std::array<unsigned char, kLabels + 1> labels = {};
    std::array<size_t, kLabels + 2> starts;
    const bool ends = keys_[node.first].size() == node.depth;
    size_t children = ends ? 1 : 0;  // labels[0] is that of the value then
    for (size_t i = node.first + children; i < node.last; ++children) {
      labels[children] = Label(i, node.depth);
      if (IsReserved(labels[children])) return BadToken(i);
      starts[children] = i;
      i = EndOfLabel(i, node.last, node.depth);
    }
    starts[children] = node.last;
    const Result<size_t> base =
        SetBase(node.unit, std::span(labels).first(children), ends, node.first);
    if (!base.ok()) return base.error();
    for (size_t i = children; i-- > (ends ? 1 : 0);) {
      open_.push_back({base.value() + labels[i], starts[i], starts[i + 1], node.depth + 1});
    }
    return {};
  }

  // The rest of a key that shares no more with others.
  Result<void> ExpandTail(const Node& node) {
    size_t unit = node.unit;
    for (size_t at = node.depth; at < keys_[node.first].size(); ++at) {
      const unsigned char label = Label(node.first, at);
      if (IsReserved(label)) return BadToken(node.first);
      const Result<size_t> base = SetBase(unit, {&label, 1}, false, node.first);
      if (!base.ok()) return base.error();
      unit = base.value() + label;
    }
    constexpr unsigned char kValue{0};
    const Result<size_t> base = SetBase(unit, {&kValue, 1}, true, node.first);
    return base.ok() ? Result<void>() : base.error();
  }

  std::span<const Key> keys_;
  std::span<uint32_t> units_;
  size_t size_ = 0;              // of the units in use
  std::vector<uint64_t> taken_;  // bit i: unit i is in use
  std::vector<uint64_t> based_;  // bit i: i is some node's base
  std::array<size_t, 6> hints_ = {};
  std::vector<Node> open_;
};

}  // namespace

Result<DoubleArray> DoubleArray::Build(std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.value >= kMaxValues) {
      return Error(ErrorCode::kUnsupported,
                   "id " + std::to_string(entry.value) + " is above the limit of 8388607");
    }
  }
  const std::vector<Key> keys = SortKeys(entries);
  if (!keys.empty() && keys[0].size() == 0) {
    return Error(ErrorCode::kUnsupported,
                 "token " + std::to_string(keys[0].entry.value) + " is empty");
  }
  entries.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) entries[i] = keys[i].entry;
  const auto room = std::make_unique_for_overwrite<uint32_t[]>(kMaxUnits);
  Result<std::vector<uint32_t>> units = Builder(keys, {room.get(), kMaxUnits}).Build();
  if (!units.ok()) return std::move(units.error());
  DoubleArray array;
  array.units_ = std::move(units).value();
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
