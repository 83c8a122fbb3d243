#include "tokenizer/bert_words.h"

namespace sprat {
namespace {

struct Collect {
  std::vector<char32_t> characters;
  void Add(char32_t c) { characters.push_back(c); }
  bool full() const { return false; }
};

BertTable::Entry Describe(char32_t c, const BertNormalizer& normalizer) {
  using Kind = BertTable::Kind;
  BertTable::Entry entry{};
  Collect made;
  std::vector<PendingMark> marks;
  normalizer.AddCharacter(c, marks, made);
  if (!marks.empty() || made.characters.size() > 1) return entry;  // kGeneral
  const auto set_kind = [&entry](Kind kind, size_t size_bytes) {
    entry.size_and_kind = static_cast<uint8_t>(static_cast<size_t>(kind) << 2 | size_bytes);
  };
  if (made.characters.empty()) {
    set_kind(Kind::kDropped, 0);
    return entry;
  }
  const char32_t only = made.characters[0];
  const uint8_t flags = RecordOf(only).flags;
  if ((flags & kWhitespace) != 0) {
    set_kind(Kind::kSpace, 0);
    return entry;
  }
  char bytes[4];
  const size_t size_bytes = EncodeUtf8(only, bytes);
  if (size_bytes > sizeof entry.bytes) return entry;
  std::memcpy(entry.bytes, bytes, sizeof entry.bytes);
  set_kind((flags & kPunctuation) != 0 ? Kind::kAlone : Kind::kLetter, size_bytes);
  return entry;
}

}  // namespace

BertTable::BertTable(const BertNormalizer& normalizer) {
  entries_.reserve(kSize);
  for (char32_t c = 0; c < kSize; ++c) entries_.push_back(Describe(c, normalizer));
}

}  // namespace sprat
