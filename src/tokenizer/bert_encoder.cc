#include "tokenizer/bert_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "tokenizer/ascii_block.h"

namespace sprat {
namespace {

constexpr size_t kBlock{64};
constexpr size_t kReadable{kBlock + WordKey::kMaxBytes + 1};  // a key may be loaded at each byte

// BertPreTokenizer: white space separates words, each punctuation character is a word.
class WordCollector {
 public:
  WordCollector(const WordPiece& model, size_t limit, std::string& word, IdBuffer& ids)
      : model_(model), limit_(limit), word_(word), ids_(ids) {
    word_.clear();
  }

  void Add(char32_t c) {
    const uint8_t flags = RecordOf(c).flags;
    if ((flags & (kWhitespace | kPunctuation)) == 0) return AppendToWord(c);
    Flush();
    if ((flags & kWhitespace) != 0) return;
    AppendToWord(c);
    Flush();
  }

  void Flush() {
    if (characters_ == 0) return;
    model_.Append(word_, characters_, ids_);
    word_.clear();
    characters_ = 0;
  }

  bool full() const { return ids_.size() > limit_; }

 private:
  // A word that is too long is unknown whatever it says, so its rest is only counted.
  void AppendToWord(char32_t c) {
    if (++characters_ <= model_.options().max_characters) AppendUtf8(c, word_);
  }

  const WordPiece& model_;
  const size_t limit_;
  std::string& word_;
  IdBuffer& ids_;
  size_t characters_ = 0;
};

// The bytes before the first ASCII separator in `text`.
size_t ChunkLength(std::string_view text) {
  size_t at = 0;
  for (; at + kBlock <= text.size(); at += kBlock) {
    const AsciiBlock block = ClassifyAscii(text.data() + at);
    const uint64_t separators = block.space | block.punctuation;
    if (separators != 0) return at + static_cast<size_t>(std::countr_zero(separators));
  }
  char padded[kBlock];
  std::memset(padded, ' ', kBlock);
  std::memcpy(padded, text.data() + at, text.size() - at);
  const AsciiBlock block = ClassifyAscii(padded);
  return at + static_cast<size_t>(std::countr_zero(block.space | block.punctuation));
}

}  // namespace

BertEncoder::BertEncoder(const BertNormalizer& normalizer, const WordPiece& model)
    : normalizer_(normalizer), model_(model) {}

void BertEncoder::EncodeChunk(std::string_view chunk, size_t limit, BertScratch& scratch,
                              IdBuffer& ids) const {
  WordCollector words(model_, limit, scratch.word, ids);
  normalizer_.Run(chunk, scratch.marks, words);
  words.Flush();
}

void BertEncoder::EncodeShortChunk(std::string_view chunk, BertScratch& scratch,
                                   IdBuffer& ids) const {
  const WordKey key = LoadWordKey(chunk.data(), chunk.size());
  WordCache::Entry& entry = scratch.cache.Slot(key);
  if (entry.key == key) {
    std::memcpy(ids.End(), entry.ids, sizeof entry.ids);  // the unused ones are overwritten next
    ids.Advance(entry.count);
    return;
  }
  const size_t before = ids.size();
  EncodeChunk(chunk, std::numeric_limits<size_t>::max(), scratch, ids);
  const auto made = ids.ids().subspan(before);
  if (made.size() <= WordCache::kMaxIds) WordCache::Fill(entry, key, made);
  ids.Reserve(kBlock * WordCache::kMaxIds);
}

void BertEncoder::Encode(std::string_view text, size_t limit, BertScratch& scratch,
                         IdBuffer& ids) const {
  char padded[kReadable];
  for (size_t at = 0; at < text.size() && ids.size() <= limit;) {
    const char* p = text.data() + at;
    const size_t remaining = text.size() - at;
    if (remaining < kReadable) {
      std::memset(padded, ' ', kReadable);
      std::memcpy(padded, p, remaining);
      p = padded;
    }
    const AsciiBlock block = ClassifyAscii(p);
    const uint64_t separators = block.space | block.punctuation;
    // A chunk that reaches the end of the block waits for the next one, which starts with it.
    const size_t complete = kBlock - static_cast<size_t>(std::countl_zero(separators));
    if (complete == 0) {
      const size_t length = ChunkLength(text.substr(at));
      EncodeChunk(text.substr(at, length), limit, scratch, ids);
      at += length;
      continue;
    }
    uint64_t starts = block.punctuation | (~separators & (separators << 1 | 1));
    if (complete < kBlock) starts &= (uint64_t{1} << complete) - 1;
    ids.Reserve(kBlock * WordCache::kMaxIds);  // no more chunks than bytes
    for (; starts != 0; starts &= starts - 1) {
      const auto start = static_cast<size_t>(std::countr_zero(starts));
      const auto length = std::max(1, std::countr_zero(separators >> start));
      const std::string_view chunk(p + start, static_cast<size_t>(length));
      if (chunk.size() <= WordKey::kMaxBytes) {
        EncodeShortChunk(chunk, scratch, ids);
      } else {
        EncodeChunk(chunk, limit, scratch, ids);
        ids.Reserve(kBlock * WordCache::kMaxIds);
      }
    }
    at += complete;
  }
}

}  // namespace sprat
