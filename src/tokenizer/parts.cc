#include "tokenizer/parts.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace sprat {

std::vector<PreTokenizer::Step> BertPreTokenizerSteps() {
  return {CharacterSplit{.kind = CharacterSplit::Class::kWhitespace,
                         .behavior = SplitBehavior::kRemoved},
          CharacterSplit{.kind = CharacterSplit::Class::kPunctuation,
                         .behavior = SplitBehavior::kIsolated}};
}

void AssignIds(const DoubleArray& model_tokens, size_t model_size, std::vector<AddedToken>& tokens,
               std::vector<DoubleArray::Entry>& entries) {
  std::vector<AddedToken> kept;
  std::unordered_map<std::string, size_t> places;  // of contents in `kept`
  auto next_id = static_cast<uint32_t>(model_size);
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    const auto [place, is_new] = places.emplace(token.content, kept.size());
    if (!is_new) {  // the last description of a token counts
      token.id = kept[place->second].id;
      kept[place->second] = std::move(token);
      continue;
    }
    const std::optional<uint32_t> known = model_tokens.Find(token.content);
    token.id = known ? *known : next_id++;
    kept.push_back(std::move(token));
  }
  tokens = std::move(kept);
  for (const AddedToken& token : tokens) {
    if (!model_tokens.Find(token.content)) entries.push_back({token.content, token.id});
  }
}

}  // namespace sprat
