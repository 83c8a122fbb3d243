#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/load_weights.h"
#include "engine/device_choice.h"
#include "engine/fallback_model.h"
#include "engine/loaded_model.h"
#include "engine/weight_check.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"

namespace sprat {
namespace {

// The least that leaves room for a token between [CLS] and [SEP].
constexpr size_t kLeastMaxLength{3};

// A GPU cuts a batch into pieces of its own and overlaps their copies.
constexpr size_t kGpuBatchTokens{65536};

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

// The encoder on the device it was asked for, with what only that device knows.
struct Placed {
  std::unique_ptr<Model> model;
  gpu::GpuEncoder* gpu = nullptr;  // `model`, or nullptr
  EngineInfo info;                 // device, device_name, kernels, threads
};

Result<Placed> PlaceOnCpu(const EncoderFiles& files, size_t threads, const TensorSource& source) {
  const EncoderOptions options{.pooling = files.sentence.pooling,
                               .max_sequence = files.sentence.max_sequence,
                               .threads = threads};
  Result<std::unique_ptr<Encoder>> encoder = Encoder::Create(files.config, options, source);
  if (!encoder.ok()) return std::move(encoder.error());
  Placed placed;
  placed.info.device = "cpu";
  placed.info.kernels = encoder.value()->kernels().name;
  placed.info.threads = encoder.value()->threads();
  placed.model = std::move(encoder).value();
  return placed;
}

Result<Placed> PlaceOnGpu(const EncoderFiles& files, int device, const TensorSource& source) {
  const gpu::ReadTensor read = [&source](std::string_view name, std::span<const uint64_t> shape,
                                         std::span<float> out) -> Result<void> {
    Result<SourceTensor> tensor = source(name, shape);
    if (!tensor.ok()) return std::move(tensor.error());
    std::copy(tensor.value().values.begin(), tensor.value().values.end(), out.begin());
    return {};
  };
  Result<std::string> name = gpu::DescribeDevice(device);
  if (!name.ok()) return std::move(name.error());
  Result<std::unique_ptr<gpu::GpuEncoder>> encoder =
      gpu::OpenGpuEncoder(files.config, read,
                          {.device = device,
                           .pooling = files.sentence.pooling,
                           .max_sequence = files.sentence.max_sequence});
  if (!encoder.ok()) return std::move(encoder.error());
  Placed placed;
  placed.info.device = "cuda:" + std::to_string(device);
  placed.info.device_name = std::move(name).value();
  placed.info.kernels = "graph";
  placed.gpu = encoder.value().get();
  placed.model = std::move(encoder).value();
  return placed;
}

// On the device that the options name.
Result<Placed> Place(const EncoderFiles& files, const EngineOptions& options,
                     const TensorSource& source) {
  Result<DeviceChoice> choice = ParseDevice(options.device);
  if (!choice.ok()) return std::move(choice.error());
  if (!choice.value().cuda) return PlaceOnCpu(files, options.threads, source);
  Result<Placed> placed = PlaceOnGpu(files, choice.value().index, source);
  if (!placed.ok()) return std::move(placed.error()).In("device '" + options.device + "'");
  return placed;
}

size_t Parameters(const std::vector<UsedTensor>& used) {
  size_t parameters = 0;
  for (const UsedTensor& tensor : used) parameters += tensor.tensor->elements();
  return parameters;
}

// Adds to `info` what does not depend on the device.
void Describe(const std::filesystem::path& directory, const EncoderFiles& files, const Model& model,
              const TensorFile& tensors, EngineInfo& info) {
  const EncoderConfig& config = files.config;
  const SentenceConfig& sentence = files.sentence;
  info.family = "encoder";
  info.architecture = "bert";
  info.directory = directory;
  info.layers = config.layers;
  info.hidden = config.hidden;
  info.heads = config.heads;
  info.ffn = config.ffn;
  info.vocabulary = model.vocabulary_rows();
  info.dimensions = model.dimensions();
  info.weight_bytes = model.weight_bytes();
  info.pooling = Name(sentence.pooling);
  info.normalizes = sentence.normalize;
  info.max_length = model.max_sequence();
  info.position_limit = config.positions;
  info.prompts.insert(sentence.prompts.begin(), sentence.prompts.end());
  info.default_prompt_name = sentence.default_prompt_name;
  info.weights_dtype = Name(FindEncoderTensor(tensors, "embeddings.word_embeddings.weight")->dtype);
  info.arithmetic = model.arithmetic();
  info.warnings = sentence.warnings;
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
  Result<Placed> placed =
      Place(files.value(), options, Watched(*tensors, options.check_weights, used));
  if (!placed.ok()) return std::move(placed.error());
  Result<void> checked = CheckVocabulary(directory, tokenizer.value(), *placed.value().model);
  if (!checked.ok()) return std::move(checked.error());

  LoadedModel loaded;
  loaded.info = std::move(placed.value().info);
  loaded.info.parameters = Parameters(used);
  Describe(directory, files.value(), *placed.value().model, *tensors, loaded.info);
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer).value());
  loaded.tensors = std::move(tensors);
  loaded.model = std::move(placed.value().model);
  loaded.gpu = placed.value().gpu;
  if (loaded.gpu != nullptr) loaded.batch_tokens = kGpuBatchTokens;
  if (loaded.gpu != nullptr && options.on_fallback) {
    loaded.model = std::make_unique<FallbackModel>(
        std::move(loaded.model),
        [files = files.value(), threads = options.threads,
         file = loaded.tensors.get()]() -> Result<std::unique_ptr<Model>> {
          Result<Placed> standby = PlaceOnCpu(files, threads, SourceOf(*file));
          if (!standby.ok()) return std::move(standby.error());
          return std::move(standby.value().model);
        },
        options.on_fallback);
  }
  loaded.sentence = std::move(files.value().sentence);
  loaded.fingerprint = [config = files.value().config, sentence = loaded.sentence,
                        tokenizer = loaded.tokenizer.get(), file = loaded.tensors.get(),
                        parse = options.parse_special_tokens, used = std::move(used)] {
    return EncoderFingerprint(config, sentence, FullBehaviour(*tokenizer, parse), used, *file);
  };
  return loaded;
}

}  // namespace sprat
