// BertNormalizer, BertPreTokenizer and WordPiece on the characters of a chunk, in one pass.
#ifndef SPRAT_TOKENIZER_BERT_WORDS_H_
#define SPRAT_TOKENIZER_BERT_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bert.h"
#include "tokenizer/id_buffer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wordpiece.h"

namespace sprat {

// What becomes of the characters below kSize, as long as no mark is waiting for its place.
class BertTable {
 public:
  static constexpr char32_t kSize{0x3400};  // up to where the ideographs begin

  enum class Kind : uint8_t {
    kGeneral,  // more than this table can say: ask the normalizer
    kDropped,
    kSpace,   // ends a word
    kLetter,  // adds one character to the word
    kAlone,   // is a word
  };
  struct Entry {
    char bytes[3];  // the UTF-8 of kLetter and kAlone
    uint8_t size_and_kind = 0;

    Kind kind() const { return static_cast<Kind>(size_and_kind >> 2); }
    size_t size_bytes() const { return size_and_kind & 3; }
  };

  // Asks the normalizer about each character.
  explicit BertTable(const BertNormalizer& normalizer);

  Entry operator[](char32_t c) const { return entries_[c]; }

 private:
  std::vector<Entry> entries_;
};

// BertPreTokenizer: white space separates words, each punctuation character is a word. Collects
// normalised characters and passes words to the model. `word` is scratch, of bounded size.
class BertWords {
 public:
  BertWords(const WordPiece& model, size_t limit, std::string& word, IdBuffer& ids)
      : model_(model),
        limit_(limit),
        most_(model.options().max_characters),
        word_(word),
        ids_(ids) {
    if (word_.size() < 64) word_.resize(64);
  }

  // The next normalised character.
  void Add(char32_t c) {
    const uint8_t flags = RecordOf(c).flags;
    if ((flags & kWhitespace) != 0) return Flush();
    char bytes[4];
    const size_t size_bytes = EncodeUtf8(c, bytes);
    if ((flags & kPunctuation) == 0) return AddLetter(bytes, size_bytes);
    AddAlone(bytes, size_bytes);
  }

  // `bytes`: of one character; four are readable.
  void AddLetter(const char* bytes, size_t size_bytes) {
    // A word that is too long is unknown whatever it says, so its rest is only counted.
    if (++characters_ > most_) return;
    if (size_bytes_ + 4 > word_.size()) word_.resize(2 * word_.size());
    std::memcpy(word_.data() + size_bytes_, bytes, 4);
    size_bytes_ += size_bytes;
  }
  void AddAlone(const char* bytes, size_t size_bytes) {
    Flush();
    AddLetter(bytes, size_bytes);
    Flush();
  }

  // Ends the word, if there is one.
  void Flush() {
    if (characters_ == 0) return;
    model_.Append(std::string_view(word_).substr(0, size_bytes_), characters_, ids_);
    size_bytes_ = 0;
    characters_ = 0;
  }

  bool full() const { return ids_.size() > limit_; }

 private:
  const WordPiece& model_;
  const size_t limit_;
  const size_t most_;  // characters of a word
  std::string& word_;
  IdBuffer& ids_;
  size_t size_bytes_ = 0;
  size_t characters_ = 0;
};

// Normalises `chunk` into `words`, and ends the last word.
inline void AddChunk(std::string_view chunk, const BertNormalizer& normalizer,
                     const BertTable& table, std::vector<PendingMark>& marks, BertWords& words) {
  for (size_t at = 0; at < chunk.size() && !words.full();) {
    const Utf8Character next = DecodeUtf8(chunk.data() + at);
    at += next.size_bytes;
    BertTable::Entry entry{};
    if (next.code_point < BertTable::kSize && marks.empty()) entry = table[next.code_point];
    switch (entry.kind()) {
      case BertTable::Kind::kGeneral:
        normalizer.AddCharacter(next.code_point, marks, words);
        break;
      case BertTable::Kind::kDropped:
        break;
      case BertTable::Kind::kSpace:
        words.Flush();
        break;
      case BertTable::Kind::kLetter:
        words.AddLetter(reinterpret_cast<const char*>(&entry), entry.size_bytes());
        break;
      case BertTable::Kind::kAlone:
        words.AddAlone(reinterpret_cast<const char*>(&entry), entry.size_bytes());
        break;
    }
  }
  normalizer.Finish(marks, words);
  words.Flush();
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_BERT_WORDS_H_
