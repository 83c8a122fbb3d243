// BertNormalizer and BertPreTokenizer of Hugging Face tokenizers.
#ifndef SPRAT_TOKENIZER_BERT_H_
#define SPRAT_TOKENIZER_BERT_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;  // in the files null stands for the value of lowercase
  bool lowercase = true;
};

// A mark that waits for its place in canonical order.
struct PendingMark {
  char32_t c;
  uint8_t combining_class;
};

// In this order, each if asked for: controls vanish and white space becomes a space; ideographs get
// spaces around them; canonical decomposition without nonspacing marks; lower case.
class BertNormalizer {
 public:
  explicit BertNormalizer(const BertOptions& options) : options_(options) {}

  // Calls sink.Add(c) for each character of the normalised `text` (valid UTF-8), in order, until
  // sink.full(). `marks` is scratch.
  template <typename Sink>
  void Run(std::string_view text, std::vector<PendingMark>& marks, Sink& sink) const;

  // One step of Run, and its end.
  template <typename Sink>
  void AddCharacter(char32_t c, std::vector<PendingMark>& marks, Sink& sink) const;
  template <typename Sink>
  void Finish(std::vector<PendingMark>& marks, Sink& sink) const {
    FlushMarks(marks, sink);
  }

  // The normalised text.
  void Normalize(std::string_view text, std::vector<PendingMark>& marks, std::string& out) const;

  const BertOptions& options() const { return options_; }

 private:
  template <typename Sink>
  void Lower(char32_t c, Sink& sink) const {
    if (options_.lowercase) {
      EmitLower(c, [&sink](char32_t lower) { sink.Add(lower); });
    } else {
      sink.Add(c);
    }
  }

  // Canonical order (The Unicode Standard, section 3.11) of marks that are not dropped; those that
  // are take no part in it.
  template <typename Sink>
  void FlushMarks(std::vector<PendingMark>& marks, Sink& sink) const {
    if (marks.empty()) return;
    std::stable_sort(marks.begin(), marks.end(), [](const PendingMark& a, const PendingMark& b) {
      return a.combining_class < b.combining_class;
    });
    for (const PendingMark& mark : marks) Lower(mark.c, sink);
    marks.clear();
  }

  // `c` has no decomposition.
  template <typename Sink>
  void StripAccent(char32_t c, std::vector<PendingMark>& marks, Sink& sink) const {
    const CharacterRecord& record = RecordOf(c);
    const bool dropped = (record.flags & kNonspacingMark) != 0;
    if (record.combining_class == 0) {
      FlushMarks(marks, sink);
      if (!dropped) Lower(c, sink);
    } else if (!dropped) {
      marks.push_back({c, record.combining_class});
    }
  }

  template <typename Sink>
  void Decompose(char32_t c, std::vector<PendingMark>& marks, Sink& sink) const {
    if (!options_.strip_accents) return Lower(c, sink);
    HangulBuffer hangul;
    const auto parts = CanonicalDecomposition(c, hangul);
    if (parts.empty()) return StripAccent(c, marks, sink);
    for (const char32_t part : parts) StripAccent(part, marks, sink);
  }

  BertOptions options_;
};

template <typename Sink>
void BertNormalizer::AddCharacter(char32_t c, std::vector<PendingMark>& marks, Sink& sink) const {
  if (options_.clean_text) {
    const uint8_t flags = RecordOf(c).flags;
    if ((flags & kControl) != 0) return;
    if ((flags & kWhitespace) != 0) c = ' ';
  }
  if (options_.handle_chinese_chars && IsBertIdeograph(c)) {
    Decompose(' ', marks, sink);
    Decompose(c, marks, sink);
    Decompose(' ', marks, sink);
  } else {
    Decompose(c, marks, sink);
  }
}

template <typename Sink>
void BertNormalizer::Run(std::string_view text, std::vector<PendingMark>& marks, Sink& sink) const {
  for (size_t at = 0; at < text.size() && !sink.full();) {
    const Utf8Character next = DecodeUtf8(text.data() + at);
    at += next.size_bytes;
    AddCharacter(next.code_point, marks, sink);
  }
  Finish(marks, sink);
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_BERT_H_
