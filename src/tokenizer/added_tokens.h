// Tokens that are found in the text before anything else happens to it.
#ifndef SPRAT_TOKENIZER_ADDED_TOKENS_H_
#define SPRAT_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/double_array.h"

namespace sprat {

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool normalized = false;   // looked for in the normalised text, its own text normalised too
  bool special = false;      // not looked for if the caller does not want special tokens parsed
};

// A set of added tokens that are all looked for in the same form of the text. Leftmost match first,
// of several at one place the longest. Immutable; any thread may call.
// Source: AddedVocabulary::find_matches of Hugging Face tokenizers.
class AddedTokens {
 public:
  // tokens[i].content is what to look for. Errors: those of DoubleArray::Build.
  static Result<AddedTokens> Build(std::vector<AddedToken> tokens);

  struct Match {
    size_t begin;   // of the token with what was stripped
    size_t end;     // the same
    size_t resume;  // where the search goes on: the end of the token itself
    uint32_t id;
  };

  // Where the search stands. The text before `covered` belongs to earlier matches; white space
  // there is not taken along.
  struct Position {
    size_t resume = 0;
    size_t covered = 0;
  };

  // The first match at or after `from.resume` in `text`. The caller goes on from
  // {match.resume, match.end}.
  std::optional<Match> Next(std::string_view text, Position from, bool parse_special_tokens) const;

  // Calls on_text(part) for the parts of `text` that belong to no token and on_token(id) for the
  // others, from the left, until one of them returns false.
  template <typename OnText, typename OnToken>
  void ForEachPart(std::string_view text, bool parse_special_tokens, const OnText& on_text,
                   const OnToken& on_token) const {
    Position position;
    while (const auto match = Next(text, position, parse_special_tokens)) {
      if (position.covered < match->begin &&
          !on_text(text.substr(position.covered, match->begin - position.covered))) {
        return;
      }
      if (!on_token(match->id)) return;
      position = {match->resume, match->end};
    }
    if (position.covered < text.size()) static_cast<void>(on_text(text.substr(position.covered)));
  }

  // Whether `text` has a byte that some token starts with.
  bool MayStartIn(std::string_view text) const { return NextCandidate(text, 0) < text.size(); }

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  size_t NextCandidate(std::string_view text, size_t from) const;

  std::vector<AddedToken> tokens_;
  DoubleArray trie_;                   // content -> index in tokens_
  std::array<bool, 256> starts_ = {};  // bytes that some content starts with
  int only_start_ = -1;                // the byte, if there is one alone
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_ADDED_TOKENS_H_
