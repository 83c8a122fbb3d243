// One pass over a text: chunks between ASCII separators, most of them from a cache.
#ifndef SPRAT_TOKENIZER_CHUNKS_H_
#define SPRAT_TOKENIZER_CHUNKS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tokenizer/ascii_block.h"
#include "tokenizer/id_buffer.h"
#include "tokenizer/word_cache.h"

namespace sprat {

// What lies between chunks: white space (space, tab, LF, CR), which belongs to none. With
// kSpaceAndPunctuation each ASCII punctuation character is also a chunk of its own.
enum class Separators { kSpace, kSpaceAndPunctuation };

// Walks a text 64 bytes at a time. `encode(chunk, ids)` appends the ids of a chunk that is not in
// the cache, and says whether it could: what it made must depend on the chunk alone.
template <Separators kSeparators, typename Encode>
class ChunkWalk {
 public:
  ChunkWalk(const Encode& encode, WordCache& cache, IdBuffer& ids)
      : encode_(encode), cache_(cache), ids_(ids) {}

  // Appends the ids of `text`; stops early once there are more than `limit` ids. False as soon as
  // encode says so.
  bool Run(std::string_view text, size_t limit);

 private:
  static constexpr size_t kBlock{64};
  static constexpr size_t kReadable{kBlock + 16};  // a key may be loaded at each byte of the block
  static constexpr size_t kBlockIds{kBlock * WordCache::kMaxIds + WordCache::kMaxIds};

  struct Block {
    uint64_t separators;
    uint64_t punctuation;  // those separators that are chunks
  };
  static Block Classify(const char* p) {
    const AsciiBlock block = ClassifyAscii(p);
    if constexpr (kSeparators == Separators::kSpace) return {block.space, 0};
    return {block.space | block.punctuation, block.punctuation};
  }

  // The bytes before the first separator in `text`.
  static size_t ChunkLength(std::string_view text);
  bool EncodeBlock(const char* p, const Block& block, size_t complete);
  // 16 bytes are readable at `chunk`.
  bool EncodeShort(std::string_view chunk);
  bool EncodeLong(std::string_view chunk) {
    const bool encoded = encode_(chunk, ids_);
    ids_.Reserve(kBlockIds);
    return encoded;
  }

  const Encode& encode_;
  WordCache& cache_;
  IdBuffer& ids_;
};

template <Separators kSeparators, typename Encode>
size_t ChunkWalk<kSeparators, Encode>::ChunkLength(std::string_view text) {
  size_t at = 0;
  for (; at + kBlock <= text.size(); at += kBlock) {
    const uint64_t separators = Classify(text.data() + at).separators;
    if (separators != 0) return at + static_cast<size_t>(std::countr_zero(separators));
  }
  char padded[kBlock];
  std::memset(padded, ' ', kBlock);
  std::memcpy(padded, text.data() + at, text.size() - at);
  return at + static_cast<size_t>(std::countr_zero(Classify(padded).separators));
}

template <Separators kSeparators, typename Encode>
bool ChunkWalk<kSeparators, Encode>::EncodeShort(std::string_view chunk) {
  const WordKey key = LoadWordKey(chunk.data(), chunk.size());
  WordCache::Entry& entry = cache_.Slot(key);
  if (entry.key == key) {
    std::memcpy(ids_.End(), entry.ids,
                sizeof entry.ids);  // what is not counted is overwritten next
    ids_.Advance(entry.count);
    return true;
  }
  const size_t before = ids_.size();
  if (!encode_(chunk, ids_)) return false;
  const auto made = ids_.ids().subspan(before);
  if (made.size() <= WordCache::kMaxIds) WordCache::Fill(entry, key, made);
  ids_.Reserve(kBlockIds);
  return true;
}

// The chunks that end before byte `complete` of the block at p.
template <Separators kSeparators, typename Encode>
bool ChunkWalk<kSeparators, Encode>::EncodeBlock(const char* p, const Block& block,
                                                 size_t complete) {
  uint64_t starts = block.punctuation | (~block.separators & (block.separators << 1 | 1));
  if (complete < kBlock) starts &= (uint64_t{1} << complete) - 1;
  for (; starts != 0; starts &= starts - 1) {
    const auto start = static_cast<size_t>(std::countr_zero(starts));
    const auto length = std::max(1, std::countr_zero(block.separators >> start));
    const std::string_view chunk(p + start, static_cast<size_t>(length));
    const bool encoded =
        chunk.size() <= WordKey::kMaxBytes ? EncodeShort(chunk) : EncodeLong(chunk);
    if (!encoded) return false;
  }
  return true;
}

template <Separators kSeparators, typename Encode>
bool ChunkWalk<kSeparators, Encode>::Run(std::string_view text, size_t limit) {
  char padded[kReadable];
  for (size_t at = 0; at < text.size() && ids_.size() <= limit;) {
    const char* p = text.data() + at;
    const size_t remaining = text.size() - at;
    if (remaining < kReadable) {
      std::memset(padded, ' ', kReadable);
      std::memcpy(padded, p, remaining);
      p = padded;
    }
    const Block block = Classify(p);
    ids_.Reserve(kBlockIds);  // there are no more chunks than bytes
    // A chunk that reaches the end of the block waits for the next one, which starts with it.
    const size_t complete = kBlock - static_cast<size_t>(std::countl_zero(block.separators));
    if (complete == 0) {
      const size_t length = ChunkLength(text.substr(at));
      if (!EncodeLong(text.substr(at, length))) return false;
      at += length;
    } else {
      if (!EncodeBlock(p, block, complete)) return false;
      at += complete;
    }
  }
  return true;
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_CHUNKS_H_
