// A bounded memory of words and the ids they became.
#ifndef SPRAT_TOKENIZER_WORD_CACHE_H_
#define SPRAT_TOKENIZER_WORD_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace sprat {

// The bytes of a short word, zero-filled, with the length in the last byte.
struct WordKey {
  static constexpr size_t kMaxBytes{15};

  uint64_t low;
  uint64_t high;

  friend bool operator==(const WordKey&, const WordKey&) = default;
};

// The key of the first `length` (at most kMaxBytes) of the 16 readable bytes at `p`.
inline WordKey LoadWordKey(const char* p, size_t length) {
  WordKey key;
  std::memcpy(&key.low, p, 8);
  std::memcpy(&key.high, p + 8, 8);
  // Keeps the low 8 * n bits; the shift count of the word that is kept or dropped whole is clamped
  // so that both cases need no branch.
  const auto mask = [](size_t n) { return n >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * n)) - 1; };
  key.low &= mask(length);
  key.high &= length <= 8 ? 0 : mask(length - 8);
  key.high |= uint64_t{length} << 56;
  return key;
}

// Direct-mapped: a new word takes the place of whatever shares its slot. Holds words that became at
// most kMaxIds ids. 512 KB, never more. One thread at a time.
class WordCache {
 public:
  static constexpr size_t kMaxIds{3};

  struct Entry {
    WordKey key;  // the empty slot has length 0, which no word has
    uint32_t ids[kMaxIds];
    uint32_t count;
  };
  static_assert(sizeof(Entry) == 32, "two entries a cache line");

  // The slot of `key`; it holds `key` only if its key says so. A slot is read and written whole.
  Entry& Slot(const WordKey& key) {
    if (entries_.empty()) entries_.resize(kEntries);  // many tokenizers never need theirs
    const uint64_t mixed = key.low * 0x9E3779B97F4A7C15 ^ key.high * 0xC2B2AE3D27D4EB4F;
    return entries_[(mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15 >> (64 - kEntryBits)];
  }

  static void Fill(Entry& entry, const WordKey& key, std::span<const uint32_t> ids) {
    entry.key = key;
    entry.count = static_cast<uint32_t>(ids.size());
    std::memcpy(entry.ids, ids.data(), ids.size_bytes());
  }

 private:
  static constexpr size_t kEntryBits{14};
  static constexpr size_t kEntries{size_t{1} << kEntryBits};
  std::vector<Entry> entries_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_WORD_CACHE_H_
