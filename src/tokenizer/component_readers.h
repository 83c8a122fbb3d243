// The components of a tokenizer.json, one reader each. All errors name the place in the file.
#ifndef SPRAT_TOKENIZER_COMPONENT_READERS_H_
#define SPRAT_TOKENIZER_COMPONENT_READERS_H_

#include <cstddef>
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
