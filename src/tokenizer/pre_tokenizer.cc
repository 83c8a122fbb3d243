#include "tokenizer/pre_tokenizer.h"

#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

using Part = PreTokenizerScratch::Part;

// What NormalizedString::split of the reference makes of parts that cover the text.
class Merge {
 public:
  Merge(const std::vector<Part>& parts, SplitBehavior behavior)
      : parts_(parts), behavior_(behavior) {}

  // Calls on_word(begin, end) for each word, from the left.
  template <typename OnWord>
  void Run(const OnWord& on_word) const {
    for (size_t i = 0; i < parts_.size();) {
      size_t end = i + 1;
      while (end < parts_.size() && Joins(end)) ++end;
      const bool removed = behavior_ == SplitBehavior::kRemoved && parts_[i].matches;
      if (!removed) on_word(parts_[i].begin, parts_[end - 1].end);
      i = end;
    }
  }

 private:
  // Whether part i belongs to the word of the part before it.
  bool Joins(size_t i) const {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        return false;
      case SplitBehavior::kContiguous:
        return parts_[i].matches == parts_[i - 1].matches;
      case SplitBehavior::kMergedWithPrevious:
        return parts_[i].matches && !parts_[i - 1].matches;
      case SplitBehavior::kMergedWithNext:
        return parts_[i - 1].matches && !parts_[i].matches;
    }
    return false;
  }

  const std::vector<Part>& parts_;
  SplitBehavior behavior_;
};

class Apply {
 public:
  Apply(PreTokenizerScratch& scratch, Words& words) : scratch_(scratch), words_(words) {}

  void operator()(const CharacterSplit& step) const {
    SplitEach(step.behavior, [&step](std::string_view text, std::vector<Part>& parts) {
      size_t last = 0;
      for (size_t at = 0; at < text.size();) {
        const Utf8Character next = DecodeUtf8(text.data() + at);
        const size_t end = at + next.size_bytes;
        if (Matches(step, next.code_point)) {
          if (last < at) parts.push_back({last, at, false});
          parts.push_back({at, end, true});
          last = end;
        }
        at = end;
      }
      if (last < text.size()) parts.push_back({last, text.size(), false});
    });
  }

  void operator()(const RegexSplit& step) const {
    SplitEach(step.behavior, [this, &step](std::string_view text, std::vector<Part>& parts) {
      size_t last = 0;
      while (const auto match = step.pattern.Find(text, last, scratch_.retries)) {
        if (last < match->begin) parts.push_back({last, match->begin, step.inverted});
        parts.push_back({match->begin, match->end, !step.inverted});
        last = match->end;
      }
      if (last < text.size()) parts.push_back({last, text.size(), step.inverted});
    });
  }

  void operator()(const Metaspace& step) const {
    std::string replacement;
    AppendUtf8(step.replacement, replacement);
    RewriteEach([&](const Words::Word& word, std::string_view text, std::string& out) {
      const bool has_one = text.starts_with(replacement) || text.starts_with(' ');
      const bool wanted = step.prepend == Metaspace::Prepend::kAlways ||
                          (step.prepend == Metaspace::Prepend::kFirst && word.first);
      if (wanted && !has_one) out += replacement;
      for (const char byte : text) {
        if (byte == ' ') {
          out += replacement;
        } else {
          out += byte;
        }
      }
    });
    if (!step.split) return;
    (*this)(CharacterSplit{.kind = CharacterSplit::Class::kOne,
                           .behavior = SplitBehavior::kMergedWithNext,
                           .one = step.replacement});
  }

  void operator()(PrefixSpace) const {
    RewriteEach([](const Words::Word&, std::string_view text, std::string& out) {
      if (!text.starts_with(' ')) out += ' ';
      out += text;
    });
  }

  void operator()(BytesToCharacters) const {
    RewriteEach([](const Words::Word&, std::string_view text, std::string& out) {
      AppendByteLevel(text, out);
    });
  }

  void operator()(const FixedLength& step) const {
    SplitEach(SplitBehavior::kIsolated, [&step](std::string_view text, std::vector<Part>& parts) {
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        for (size_t i = 0; i < step.length && at < text.size(); ++i) {
          at += Utf8Length(ByteAt(text.data(), at));
        }
        parts.push_back({begin, at, false});
      }
    });
  }

 private:
  static bool Matches(const CharacterSplit& step, char32_t c) {
    switch (step.kind) {
      case CharacterSplit::Class::kWhitespace:
        return (RecordOf(c).flags & kWhitespace) != 0;
      case CharacterSplit::Class::kPunctuation:
        return (RecordOf(c).flags & kPunctuation) != 0;
      case CharacterSplit::Class::kNumeric:
        return (RecordOf(c).flags & kNumeric) != 0;
      case CharacterSplit::Class::kOne:
        return c == step.one;
    }
    return false;
  }

  // find_parts(text, parts) covers the text of a word with parts.
  template <typename FindParts>
  void SplitEach(SplitBehavior behavior, const FindParts& find_parts) const {
    scratch_.other.words.clear();
    for (const Words::Word& word : words_.words) {
      scratch_.parts.clear();
      find_parts(words_.Text(word), scratch_.parts);
      Merge(scratch_.parts, behavior).Run([&](size_t begin, size_t end) {
        scratch_.other.words.push_back(
            {word.begin + begin, word.begin + end, word.first && begin == 0});
      });
    }
    std::swap(words_.words, scratch_.other.words);
  }

  // rewrite(word, text, out) appends what becomes of a word.
  template <typename Rewrite>
  void RewriteEach(const Rewrite& rewrite) const {
    Words& out = scratch_.other;
    out.text.clear();
    out.words.clear();
    for (const Words::Word& word : words_.words) {
      const size_t begin = out.text.size();
      rewrite(word, words_.Text(word), out.text);
      if (begin < out.text.size()) out.words.push_back({begin, out.text.size(), word.first});
    }
    std::swap(words_, out);
  }

  PreTokenizerScratch& scratch_;
  Words& words_;
};

}  // namespace

void PreTokenizer::Split(PreTokenizerScratch& scratch, Words& words) const {
  for (const Step& step : steps_) std::visit(Apply(scratch, words), step);
}

}  // namespace sprat
