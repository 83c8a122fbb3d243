#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/load_weights.h"
#include "engine/loaded_model.h"
#include "engine/weight_check.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"

namespace sprat {
namespace {

// The least that leaves room for a token between [CLS] and [SEP].
constexpr size_t kLeastMaxLength{3};

// What the directory's files say, before the weights are touched.
struct EncoderFiles {
  EncoderConfig config;
  SentenceConfig sentence;
};

// Lets the caller's options replace what the model's files say.
Result<void> ApplyOptions(const EngineOptions& options, EncoderFiles& files) {
  if (options.pooling) {
    Result<Pooling> pooling = ParsePooling(*options.pooling);
    if (!pooling.ok()) return std::move(pooling.error());
    files.sentence.pooling = pooling.value();
  }
  if (options.max_length) {
    const size_t positions = files.config.positions;
    if (*options.max_length < kLeastMaxLength || *options.max_length > positions) {
      return Error(ErrorCode::kInvalidArgument,
                   "max_length must be between " + std::to_string(kLeastMaxLength) + " and " +
                       std::to_string(positions) + ", the positions of this model, got " +
                       std::to_string(*options.max_length));
    }
    files.sentence.max_sequence = static_cast<uint32_t>(*options.max_length);
  }
  return {};
}

Result<EncoderFiles> ReadEncoderFiles(const std::filesystem::path& directory,
                                      const EngineOptions& options) {
  EncoderFiles files;
  Result<EncoderConfig> config = ReadEncoderConfig(directory);
  if (!config.ok()) return std::move(config.error());
  files.config = config.value();
  Result<SentenceConfig> sentence = ReadSentenceConfig(directory, files.config);
  if (!sentence.ok()) return std::move(sentence.error());
  files.sentence = std::move(sentence).value();
  Result<void> applied = ApplyOptions(options, files);
  if (!applied.ok()) return std::move(applied.error());
  return files;
}

// do_lower_case puts a lower-casing step before a tokenizer that has none (Transformer in
// sentence-transformers); before one that has, as in bge's files, it changes nothing.
Result<void> CheckLowerCasing(const std::filesystem::path& directory, const Tokenizer& tokenizer,
                              const SentenceConfig& sentence) {
  if (!sentence.lowercase) return {};
  std::vector<uint32_t> upper, lower;
  Result<TokenizedLength> first =
      tokenizer.Tokenize("A B C D E F G H I J K L M N O P Q R S T U V W X Y Z", {}, upper);
  Result<TokenizedLength> second =
      tokenizer.Tokenize("a b c d e f g h i j k l m n o p q r s t u v w x y z", {}, lower);
  if (first.ok() && second.ok() && upper == lower) return {};
  return Error(
      ErrorCode::kUnsupported,
      (directory / "sentence_bert_config.json").string() +
          ": do_lower_case 'true' is not supported with a tokenizer that keeps upper case; "
          "supported: false, or a tokenizer that lower-cases");
}

// Every id that the tokenizer can produce must have a row in the embedding table.
Result<void> CheckVocabulary(const std::filesystem::path& directory, const Tokenizer& tokenizer,
                             const Model& model) {
  if (tokenizer.vocabulary_size() <= model.vocabulary_rows()) return {};
  return Error(ErrorCode::kCorrupt, directory.string() + ": the tokenizer's largest id is " +
                                        std::to_string(tokenizer.vocabulary_size() - 1) +
                                        ", but the embedding table has only " +
                                        std::to_string(model.vocabulary_rows()) + " rows");
}

// The tensors of `file`, with a note of each one that is asked for and, on request, a look at its
// values.
TensorSource Watched(const TensorFile& file, bool check_weights, std::vector<UsedTensor>& used) {
  return [&file, check_weights, &used, source = SourceOf(file)](
             std::string_view name, std::span<const uint64_t> shape) -> Result<SourceTensor> {
    Result<SourceTensor> tensor = source(name, shape);
    if (!tensor.ok()) return tensor;
    if (check_weights) {
      Result<void> finite = CheckFinite(file, name, tensor.value().values);
      if (!finite.ok()) return std::move(finite.error());
    }
    used.push_back({std::string(name), FindEncoderTensor(file, name)});
    return tensor;
  };
}

EngineInfo Describe(const std::filesystem::path& directory, const EncoderFiles& files,
                    const Encoder& encoder, const TensorFile& tensors) {
  const EncoderConfig& config = files.config;
  const SentenceConfig& sentence = files.sentence;
  EngineInfo info;
  info.family = "encoder";
  info.architecture = "bert";
  info.directory = directory;
  info.layers = config.layers;
  info.hidden = config.hidden;
  info.heads = config.heads;
  info.ffn = config.ffn;
  info.vocabulary = encoder.vocabulary_rows();
  info.dimensions = encoder.dimensions();
  info.parameters = encoder.parameters();
  info.weight_bytes = encoder.weight_bytes();
  info.pooling = Name(sentence.pooling);
  info.normalizes = sentence.normalize;
  info.max_length = encoder.max_sequence();
  info.position_limit = config.positions;
  info.prompts.insert(sentence.prompts.begin(), sentence.prompts.end());
  info.default_prompt_name = sentence.default_prompt_name;
  info.weights_dtype = Name(FindEncoderTensor(tensors, "embeddings.word_embeddings.weight")->dtype);
  info.arithmetic = encoder.arithmetic();
  info.kernels = encoder.kernels().name;
  info.threads = encoder.threads();
  info.warnings = sentence.warnings;
  return info;
}

}  // namespace

Result<LoadedModel> LoadEncoder(const std::filesystem::path& directory,
                                const EngineOptions& options) {
  Result<EncoderFiles> files = ReadEncoderFiles(directory, options);
  if (!files.ok()) return std::move(files.error());
  Result<Tokenizer> tokenizer = Tokenizer::Open(directory);
  if (!tokenizer.ok()) return std::move(tokenizer.error());
  Result<void> lowered = CheckLowerCasing(directory, tokenizer.value(), files.value().sentence);
  if (!lowered.ok()) return std::move(lowered.error());
  Result<TensorFile> opened = TensorFile::OpenDirectory(directory);
  if (!opened.ok()) return std::move(opened.error());
  auto tensors = std::make_unique<TensorFile>(std::move(opened).value());

  std::vector<UsedTensor> used;
  const EncoderOptions encoder_options{.pooling = files.value().sentence.pooling,
                                       .max_sequence = files.value().sentence.max_sequence,
                                       .threads = options.threads};
  Result<std::unique_ptr<Encoder>> encoder = Encoder::Create(
      files.value().config, encoder_options, Watched(*tensors, options.check_weights, used));
  if (!encoder.ok()) return std::move(encoder.error());
  Result<void> checked = CheckVocabulary(directory, tokenizer.value(), *encoder.value());
  if (!checked.ok()) return std::move(checked.error());

  LoadedModel loaded;
  loaded.info = Describe(directory, files.value(), *encoder.value(), *tensors);
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer).value());
  loaded.tensors = std::move(tensors);
  loaded.model = std::move(encoder).value();
  loaded.sentence = std::move(files.value().sentence);
  loaded.fingerprint = [config = files.value().config, sentence = loaded.sentence,
                        tokenizer = loaded.tokenizer.get(), file = loaded.tensors.get(),
                        parse = options.parse_special_tokens, used = std::move(used)] {
    return EncoderFingerprint(config, sentence, FullBehaviour(*tokenizer, parse), used, *file);
  };
  return loaded;
}

}  // namespace sprat
