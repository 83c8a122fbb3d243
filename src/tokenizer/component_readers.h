// The components of a tokenizer.json, one reader each. All errors name the place in the file.
#ifndef SPRAT_TOKENIZER_COMPONENT_READERS_H_
#define SPRAT_TOKENIZER_COMPONENT_READERS_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/decoder.h"
#include "tokenizer/double_array.h"
#include "tokenizer/json.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace sprat {

// The member `normalizer` of the file; none if it is null.
Result<Normalizer> ReadNormalizer(const JsonValue& root);

// The member `pre_tokenizer` of the file; none if it is null.
Result<PreTokenizer> ReadPreTokenizer(const JsonValue& root);

// Calls read(component, its type) for `json`, or, of a Sequence, for each of its members `list` in
// their order, whose members may be Sequences again.
template <typename Read>
Result<void> ForEachComponent(const JsonValue& json, std::string_view list, const Read& read,
                              int depth = 0) {
  constexpr int kMaxDepth{16};
  const Result<std::string_view> type = json.Type();
  if (!type.ok()) return type.error();
  if (type.value() != "Sequence") return read(json, type.value());
  const Result<std::vector<JsonValue>> items = json.List(list);
  if (!items.ok()) return items.error();
  if (depth > kMaxDepth) return json.Expected("nested less deeply");
  for (const JsonValue& item : items.value()) {
    Result<void> done = ForEachComponent(item, list, read, depth + 1);
    if (!done.ok()) return done;
  }
  return {};
}

// A pattern {"String": ...} or {"Regex": ...}.
struct PatternAndText {
  Regex pattern;
  std::string text;  // with its kind, as the file has it
};
Result<PatternAndText> ReadPattern(const JsonValue& owner);

// Components and members that normalizers, pre-tokenizers and decoders have in common.
Result<Replace> ReadReplace(const JsonValue& json);
Result<Metaspace> ReadMetaspace(const JsonValue& json);
// The member `key`: one character.
Result<char32_t> ReadCharacter(const JsonValue& json, std::string_view key);

// The member `decoder` of the file; what is wrong with it is told when it is used.
Decoder ReadDecoder(const JsonValue& root);

// The member `model` of the file.
struct ModelAndEntries {
  TokenModel model;
  std::vector<DoubleArray::Entry> entries;  // its tokens; views into the JSON
  size_t size;                              // how many tokens it counts
};
Result<ModelAndEntries> ReadModel(const JsonValue& root);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_COMPONENT_READERS_H_
