#include "tokenizer/wordpiece.h"

#include <utility>

namespace sprat {

Result<WordPiece> WordPiece::Build(std::vector<DoubleArray::Entry>& entries,
                                   const WordPieceOptions& options) {
  Result<DoubleArray> trie = DoubleArray::Build(entries);
  if (!trie.ok()) return std::move(trie.error());
  const std::optional<uint32_t> unknown_id = trie.value().Find(options.unknown_token);
  if (!unknown_id) {
    return Error(ErrorCode::kCorrupt,
                 "the unknown token '" + options.unknown_token + "' is not in the vocabulary");
  }
  return WordPiece(std::move(trie).value(), options, *unknown_id);
}

WordPiece::WordPiece(DoubleArray trie, const WordPieceOptions& options, uint32_t unknown_id)
    : options_(options),
      trie_(std::move(trie)),
      continuing_(trie_.Root()),
      continues_(true),
      unknown_id_(unknown_id) {
  for (const char byte : options_.continuing_prefix) {
    continues_ = continues_ && continuing_.Follow(static_cast<unsigned char>(byte));
  }
}

bool WordPiece::AppendPieces(std::string_view word, IdBuffer& ids) const {
  const size_t before = ids.size();
  DoubleArray::Cursor start = trie_.Root();
  for (size_t at = 0; at < word.size(); start = continuing_) {
    const bool possible = at == 0 || continues_;
    size_t matched_end = at;
    uint32_t id = 0;
    DoubleArray::Cursor cursor = start;
    for (size_t i = at; i < word.size() && possible; ++i) {
      if (!cursor.Follow(static_cast<unsigned char>(word[i]))) break;
      if (!cursor.AtKey()) continue;
      matched_end = i + 1;
      id = cursor.value();
    }
    if (matched_end == at) {
      ids.Truncate(before);
      return false;
    }
    ids.Append(id);
    at = matched_end;
  }
  return true;
}

}  // namespace sprat
