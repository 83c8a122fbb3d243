#include "cli/passages.h"

#include <algorithm>
#include <optional>

#include "cli/utf8.h"

namespace sprat::cli {
namespace {

constexpr std::string_view kWhiteSpace{" \t\r\n\f\v"};

bool IsSpace(char c) { return kWhiteSpace.find(c) != std::string_view::npos; }

// `text` without white space at its ends; `line` counts the line ends taken from its start.
Passage Trimmed(std::string_view text, size_t line) {
  const size_t start = std::min(text.find_first_not_of(kWhiteSpace), text.size());
  line += static_cast<size_t>(std::count(text.begin(), text.begin() + start, '\n'));
  text.remove_prefix(start);
  return {.text = text.substr(0, text.find_last_not_of(kWhiteSpace) + 1), .line = line};
}

// Whether a sentence ends right before text[at].
bool SentenceEnds(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  for (const std::string_view full_stop : {"。", "！", "？"}) {  // no space follows these
    if (before.ends_with(full_stop)) return true;
  }
  if (before.empty() || !IsSpace(text[at])) return false;
  const char last = before.back();
  return last == '.' || last == '!' || last == '?';
}

bool LineEnds(std::string_view text, size_t at) { return text[at] == '\n'; }
bool WordEnds(std::string_view text, size_t at) { return IsSpace(text[at]); }

// The place between a quarter and three quarters that is nearest the middle and where `border`
// holds.
std::optional<size_t> NearMiddle(std::string_view text, bool (*border)(std::string_view, size_t)) {
  const size_t middle = text.size() / 2;
  for (size_t distance = 0; distance <= text.size() / 4; ++distance) {
    if (border(text, middle - distance)) return middle - distance;
    if (border(text, middle + distance)) return middle + distance;
  }
  return {};
}

bool HoldsWord(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return c >= 0x80 || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  });
}

void AppendFitting(const Passage& passage, size_t max_bytes, std::vector<Passage>& out) {
  if (passage.text.size() > max_bytes) {
    const Halves halves = Halve(passage);
    AppendFitting(halves.first, max_bytes, out);
    AppendFitting(halves.second, max_bytes, out);
  } else if (HoldsWord(passage.text)) {
    out.push_back(passage);
  }
}

}  // namespace

Halves Halve(const Passage& passage) {
  const std::string_view text = passage.text;
  size_t cut = CutUtf8(text, text.size() / 2);
  for (const auto border : {SentenceEnds, LineEnds, WordEnds}) {
    if (const std::optional<size_t> found = NearMiddle(text, border)) {
      cut = *found;
      break;
    }
  }
  const std::string_view first = text.substr(0, cut);
  const auto lines = static_cast<size_t>(std::count(first.begin(), first.end(), '\n'));
  return {.first = Trimmed(first, passage.line),
          .second = Trimmed(text.substr(cut), passage.line + lines)};
}

std::vector<Passage> SplitPassages(std::string_view text, size_t max_bytes) {
  std::vector<Passage> passages;
  std::optional<size_t> start;  // of the paragraph being read
  size_t start_line = 0;
  bool only_headings = true;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view content = text.substr(at, end - at);
    ++line;
    const size_t indent = content.find_first_not_of(kWhiteSpace);
    if (indent != std::string_view::npos) {
      if (!start) {
        start = at;
        start_line = line;
        only_headings = true;
      }
      only_headings = only_headings && content[indent] == '#';
    } else if (start && !only_headings) {
      AppendFitting(Trimmed(text.substr(*start, at - *start), start_line), max_bytes, passages);
      start.reset();
    }
    at = end + 1;
  }
  if (start) AppendFitting(Trimmed(text.substr(*start), start_line), max_bytes, passages);
  return passages;
}

}  // namespace sprat::cli
