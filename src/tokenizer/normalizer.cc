#include "tokenizer/normalizer.h"

#include <algorithm>

#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

// Calls on_character(c) for each character of `text`.
template <typename OnCharacter>
void ForEach(std::string_view text, const OnCharacter& on_character) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Character next = DecodeUtf8(text.data() + at);
    on_character(next.code_point);
    at += next.size_bytes;
  }
}

// Appends what `map` makes of each character: itself, another, or nothing (kDropped). True if the
// first one was dropped.
constexpr char32_t kDropped{0xFFFFFFFF};
template <typename Map>
bool MapCharacters(std::string_view text, const Map& map, std::string& out) {
  bool kept_some = false;
  bool dropped_first = false;
  ForEach(text, [&](char32_t c) {
    const char32_t mapped = map(c);
    if (mapped == kDropped) {
      dropped_first = dropped_first || !kept_some;
    } else {
      kept_some = true;
      AppendUtf8(mapped, out);
    }
  });
  return dropped_first;
}

char32_t NmtCharacter(char32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
      c == 0x9F) {
    return kDropped;
  }
  const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return space ? U' ' : c;
}

// Sorts marks by class; equal ones keep their order.
void SortMarks(std::vector<char32_t>::iterator begin, std::vector<char32_t>::iterator end) {
  const auto before = [](char32_t a, char32_t b) {
    return RecordOf(a).combining_class < RecordOf(b).combining_class;
  };
  // No language puts more marks on a letter; std::stable_sort allocates.
  constexpr ptrdiff_t kFew{32};
  if (end - begin > kFew) return std::stable_sort(begin, end, before);
  for (auto mark = begin; mark != end; ++mark) {
    std::rotate(std::upper_bound(begin, mark, *mark, before), mark, mark + 1);
  }
}

// Canonical order: within each run of characters whose class is not 0, by class.
void Reorder(std::vector<char32_t>& characters) {
  const auto is_starter = [](char32_t c) { return RecordOf(c).combining_class == 0; };
  for (auto run = characters.begin(); run != characters.end();) {
    run = std::find_if_not(run, characters.end(), is_starter);
    const auto end = std::find_if(run, characters.end(), is_starter);
    SortMarks(run, end);
    run = end;
  }
}

// Canonical composition (The Unicode Standard, section 3.11), in place.
void ComposeAll(std::vector<char32_t>& characters) {
  size_t starter = characters.size();  // the last starter kept; size() while there is none
  size_t kept = 0;
  int last_class = -1;  // of what is kept after the starter; -1 while nothing is
  for (size_t i = 0; i < characters.size(); ++i) {  // kept <= i
    const char32_t c = characters[i];
    const int combining_class = RecordOf(c).combining_class;
    if (starter < kept && last_class < combining_class) {
      if (const char32_t composed = Compose(characters[starter], c)) {
        characters[starter] = composed;
        continue;
      }
    }
    characters[kept] = c;
    if (combining_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = combining_class;
    }
    ++kept;
  }
  characters.resize(kept);
}

class Apply {
 public:
  Apply(std::string_view text, NormalizerScratch& scratch, std::string& out)
      : text_(text), scratch_(scratch), out_(out) {}

  bool operator()(const BertNormalizer& step) const {
    step.Normalize(text_, scratch_.marks, out_);
    const uint8_t first = text_.empty() ? 0 : RecordOf(DecodeUtf8(text_.data()).code_point).flags;
    return (step.options().clean_text && (first & kControl) != 0) ||
           (step.options().strip_accents && (first & kNonspacingMark) != 0);
  }
  bool operator()(const Precompiled& step) const {
    step.Normalize(text_, out_);
    return false;
  }
  bool operator()(const UnicodeForm& form) const {
    std::vector<char32_t>& characters = scratch_.characters;
    characters.clear();
    ForEach(text_, [&](char32_t c) {
      HangulBuffer hangul;
      const auto parts =
          form.compatible ? CompatibleDecomposition(c, hangul) : CanonicalDecomposition(c, hangul);
      if (parts.empty()) characters.push_back(c);
      characters.insert(characters.end(), parts.begin(), parts.end());
    });
    Reorder(characters);
    if (form.compose) ComposeAll(characters);
    for (const char32_t c : characters) AppendUtf8(c, out_);
    return false;
  }
  bool operator()(Lowercase) const {
    ForEach(text_, [this](char32_t c) {
      EmitLower(c, [this](char32_t lower) { AppendUtf8(lower, out_); });
    });
    return false;
  }
  bool operator()(StripAccents) const {
    return MapCharacters(
        text_, [](char32_t c) { return (RecordOf(c).flags & kMark) != 0 ? kDropped : c; }, out_);
  }
  bool operator()(Nmt) const { return MapCharacters(text_, NmtCharacter, out_); }
  bool operator()(ByteLevelNormalizer) const {
    AppendByteLevel(text_, out_);
    return false;
  }
  bool operator()(const Strip& step) const {
    size_t begin = 0;
    size_t end = text_.size();
    const auto is_space = [this](size_t at) {
      return (RecordOf(DecodeUtf8(text_.data() + at).code_point).flags & kWhitespace) != 0;
    };
    while (step.left && begin < end && is_space(begin))
      begin += Utf8Length(ByteAt(text_.data(), begin));
    while (step.right && end > begin && is_space(PreviousCharacter(text_, end))) {
      end = PreviousCharacter(text_, end);
    }
    out_ += text_.substr(begin, end - begin);
    return begin > 0;
  }
  bool operator()(const Prepend& step) const {
    if (!text_.empty()) out_ += step.text;
    out_ += text_;
    return false;
  }
  bool operator()(const Replace& step) const {
    size_t at = 0;
    bool dropped_first = false;
    while (const auto match = step.pattern.Find(text_, at, scratch_.retries)) {
      dropped_first = dropped_first || (match->begin == 0 && step.content.empty());
      out_ += text_.substr(at, match->begin - at);
      out_ += step.content;
      at = match->end;
    }
    out_ += text_.substr(at);
    return dropped_first;
  }

 private:
  std::string_view text_;
  NormalizerScratch& scratch_;
  std::string& out_;
};

}  // namespace

bool Normalizer::Normalize(std::string_view text, NormalizerScratch& scratch,
                           std::string& out) const {
  out.assign(text);
  bool dropped_first = false;
  for (const Step& step : steps_) {
    scratch.other.clear();
    dropped_first = std::visit(Apply(out, scratch, scratch.other), step) || dropped_first;
    std::swap(out, scratch.other);
  }
  return dropped_first;
}

}  // namespace sprat
