// What a tokenizer is made of, as its files describe it.
#ifndef SPRAT_TOKENIZER_PARTS_H_
#define SPRAT_TOKENIZER_PARTS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sprat/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace sprat {

// Text -> added tokens -> normalizer -> pre-tokenizer -> model -> post-processor; and back.
struct TokenizerParts {
  std::vector<AddedToken> added_tokens;  // contents as written
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenModel model;
  Vocabulary vocabulary;         // the model's tokens and the added ones
  std::vector<uint32_t> prefix;  // what the post-processor puts before a text
  std::vector<uint32_t> suffix;  // and after it
  std::optional<FileTruncation> truncation = {};
  Decoder decoder = {};  // tokens -> text
};

// `file`: a tokenizer.json. Errors: those of ReadFile; kCorrupt with the key and the value;
// kUnsupported with the component's place and type and what is supported. `file` is in the message.
Result<TokenizerParts> ReadTokenizerJson(const std::filesystem::path& file);

// `directory`/vocab.txt (one token a line; an id is a line number) with what tokenizer_config.json
// says, if it is there, as BertTokenizer of Hugging Face transformers reads them.
Result<TokenizerParts> ReadVocabTxt(const std::filesystem::path& directory);

// The steps of BertPreTokenizer.
std::vector<PreTokenizer::Step> BertPreTokenizerSteps();

// Gives added tokens their ids: that of the model's token with the same text, else the next free
// one after the vocabulary (what a file says about ids is not believed). Puts new ones into
// `entries`, which views the contents of `tokens`. Source: AddedVocabulary::add_tokens of Hugging
// Face tokenizers.
void AssignIds(const DoubleArray& model_tokens, size_t model_size, std::vector<AddedToken>& tokens,
               std::vector<DoubleArray::Entry>& entries);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_PARTS_H_
