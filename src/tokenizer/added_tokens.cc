#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

bool HasFlag(char32_t c, CharacterFlag flag) { return (RecordOf(c).flags & flag) != 0; }

bool EndsWithWord(std::string_view text) {
  if (text.empty()) return false;
  return HasFlag(DecodeUtf8(text.data() + PreviousCharacter(text, text.size())).code_point, kWord);
}

bool StartsWithWord(std::string_view text) {
  return !text.empty() && HasFlag(DecodeUtf8(text.data()).code_point, kWord);
}

// Moves `begin` back over white space.
size_t SkipSpaceBefore(std::string_view text, size_t begin) {
  while (begin > 0) {
    const size_t previous = PreviousCharacter(text, begin);
    if (!HasFlag(DecodeUtf8(text.data() + previous).code_point, kWhitespace)) break;
    begin = previous;
  }
  return begin;
}

size_t SkipSpaceAfter(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Utf8Character next = DecodeUtf8(text.data() + end);
    if (!HasFlag(next.code_point, kWhitespace)) break;
    end += next.size_bytes;
  }
  return end;
}

}  // namespace

Result<AddedTokens> AddedTokens::Build(std::vector<AddedToken> tokens) {
  AddedTokens added;
  std::vector<DoubleArray::Entry> entries;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].content.empty()) {
      return Error(ErrorCode::kUnsupported, "an added token is empty once it is normalised");
    }
    entries.push_back({tokens[i].content, static_cast<uint32_t>(i)});
  }
  Result<DoubleArray> trie = DoubleArray::Build(entries);
  if (!trie.ok()) return std::move(trie.error());
  added.trie_ = std::move(trie).value();
  added.tokens_ = std::move(tokens);
  for (const AddedToken& token : added.tokens_)
    added.starts_[ByteAt(token.content.data(), 0)] = true;
  if (std::count(added.starts_.begin(), added.starts_.end(), true) == 1) {
    added.only_start_ = ByteAt(added.tokens_[0].content.data(), 0);
  }
  return added;
}

size_t AddedTokens::NextCandidate(std::string_view text, size_t from) const {
  if (from >= text.size()) return text.size();
  if (only_start_ >= 0) {
    const void* found = std::memchr(text.data() + from, only_start_, text.size() - from);
    if (found == nullptr) return text.size();
    return static_cast<size_t>(static_cast<const char*>(found) - text.data());
  }
  while (from < text.size() && !starts_[ByteAt(text.data(), from)]) ++from;
  return from;
}

std::optional<AddedTokens::Match> AddedTokens::Next(std::string_view text, Position from,
                                                    bool parse_special_tokens) const {
  if (empty()) return std::nullopt;
  for (size_t at = NextCandidate(text, from.resume); at < text.size();
       at = NextCandidate(text, at)) {
    size_t end = at;
    const AddedToken* token = nullptr;
    DoubleArray::Cursor cursor = trie_.Root();
    for (size_t i = at; i < text.size() && cursor.Follow(ByteAt(text.data(), i)); ++i) {
      if (!cursor.AtKey()) continue;
      end = i + 1;
      token = &tokens_[cursor.value()];
    }
    if (token == nullptr) {
      ++at;
      continue;
    }
    const bool refused = (token->special && !parse_special_tokens) ||
                         (token->single_word &&
                          (EndsWithWord(text.substr(0, at)) || StartsWithWord(text.substr(end))));
    if (refused) {  // and nothing that overlaps it is looked at
      at = end;
      continue;
    }
    const size_t begin = token->lstrip ? std::max(SkipSpaceBefore(text, at), from.covered) : at;
    return Match{begin, token->rstrip ? SkipSpaceAfter(text, end) : end, end, token->id};
  }
  return std::nullopt;
}

}  // namespace sprat
