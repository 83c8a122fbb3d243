// What the files beside the weights say: architecture, pooling, limits, prompts.
// Sources: BertConfig of Hugging Face transformers; Pooling, Normalize and the configuration files
// of sentence-transformers.
#ifndef SPRAT_MODEL_CONFIG_H_
#define SPRAT_MODEL_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat {

enum class Activation {
  kGelu,
  kGeluTanh,
  kRelu
};  // "gelu" (erf), "gelu_new"/"gelu_pytorch_tanh", "relu"

enum class Pooling { kCls, kMean, kMax, kMeanSqrtLen, kWeightedMean, kLastToken };

// The names that the command line and the documents use: "cls", "mean", "max", "mean_sqrt_len",
// "weightedmean", "lasttoken". Parsing any other is kInvalidArgument listing these.
std::string_view Name(Pooling pooling);
Result<Pooling> ParsePooling(std::string_view name);

// The architecture of a BERT-family encoder, from config.json.
struct EncoderConfig {
  uint32_t layers = 0;       // L  num_hidden_layers
  uint32_t hidden = 0;       // H  hidden_size
  uint32_t heads = 0;        // A  num_attention_heads; divides H
  uint32_t ffn = 0;          // F  intermediate_size
  uint32_t vocabulary = 0;   // V  vocab_size
  uint32_t positions = 0;    //    max_position_embeddings
  uint32_t token_types = 2;  //    type_vocab_size
  float layer_norm_eps = 1e-12f;
  Activation activation = Activation::kGelu;
};

// How a sentence's vector is made from the encoder's output, and what goes in.
struct SentenceConfig {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;     // a Normalize module is listed
  bool lowercase = false;     // texts are lower-cased before the tokenizer, whatever that does
  uint32_t max_sequence = 0;  // tokens, special ones included; never above max_position_embeddings
  std::map<std::string, std::string, std::less<>> prompts = {};
  std::optional<std::string> default_prompt_name = {};
  std::vector<std::string> warnings =
      {};  // what was assumed because a file was absent, one line each
};

// Reads `directory`/config.json. Whatever is not supported (another model_type, a
// position_embedding_type other than absolute, an unknown hidden_act, a decoder) is kUnsupported
// with the key, the value and what is supported; wrong types and impossible numbers are kCorrupt.
Result<EncoderConfig> ReadEncoderConfig(const std::filesystem::path& directory);

// Reads modules.json, the config.json of the Pooling module it lists, sentence_bert_config.json,
// config_sentence_transformers.json. Without modules.json: mean pooling and no normalisation, as
// sentence-transformers does, with a warning. A Pooling module that is listed without its file is
// kNotFound (a guess would be silently wrong); the folder of a Normalize module may be missing.
// The maximum length is max_seq_length of sentence_bert_config.json, else model_max_length of
// tokenizer_config.json, else the position table; what tokenizer.json says does not count.
// kUnsupported, naming file, key and value: modules other than Transformer, Pooling, Normalize in
// this order; two pooling modes at once; prompts left out of the pooling.
Result<SentenceConfig> ReadSentenceConfig(const std::filesystem::path& directory,
                                          const EncoderConfig& encoder);

}  // namespace sprat

#endif  // SPRAT_MODEL_CONFIG_H_
