#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/device_choice.h"
#include "engine/loaded_model.h"
#include "engine/weight_check.h"
#include "model/fingerprint.h"
#include "static_model/static_config.h"
#include "static_model/static_model.h"

namespace sprat {
namespace {

size_t CodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

// Of the vocabulary's entries, in code points.
size_t MedianTokenLength(const Tokenizer& tokenizer) {
  std::vector<size_t> lengths;
  lengths.reserve(tokenizer.vocabulary_size());
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (const auto token = tokenizer.Token(id)) lengths.push_back(CodePoints(*token));
  }
  return MedianLength(lengths);
}

// Whether texts are read as model2vec does, or as sentence-transformers' StaticEmbedding, which
// drops nothing and cuts only where tokenizer.json does.
Result<bool> AsModel2Vec(const EngineOptions& options) {
  if (!options.static_semantics || *options.static_semantics == "model2vec") return true;
  if (*options.static_semantics == "st") return false;
  return Error(ErrorCode::kInvalidArgument, "static_semantics must be 'model2vec' or 'st', got '" +
                                                *options.static_semantics + "'");
}

// sentence-transformers goes by modules.json and by what tokenizer.json says about long texts.
Result<void> FollowSentenceTransformers(const std::filesystem::path& directory,
                                        const Tokenizer& tokenizer, StaticConfig& config) {
  const std::optional<FileTruncation> truncation = tokenizer.Truncation();
  config.max_length.reset();
  if (truncation && truncation->keeps_end) {
    return Error(ErrorCode::kUnsupported,
                 directory.string() +
                     ": tokenizer.json: truncation.direction must be 'Right', found 'Left'");
  }
  if (truncation) config.max_length = truncation->max_tokens;
  Result<std::optional<bool>> normalize = ListsNormalize(directory);
  if (!normalize.ok()) return std::move(normalize.error());
  config.normalize = normalize.value().value_or(config.normalize);
  return {};
}

Result<void> CheckOptions(const EngineOptions& options) {
  Result<DeviceChoice> device = ParseDevice(options.device);
  if (!device.ok()) return std::move(device.error());
  if (device.value().cuda) {
    return Error(ErrorCode::kUnsupported,
                 "device '" + options.device + "': a static model runs on the CPU");
  }
  if (options.pooling) {
    return Error(ErrorCode::kInvalidArgument,
                 "pooling '" + *options.pooling +
                     "': a static model has no pooling to choose, it is the mean of its rows");
  }
  if (options.max_length && *options.max_length == 0) {
    return Error(ErrorCode::kInvalidArgument, "max_length must be at least 1, got 0");
  }
  return {};
}

// Every id that the tokenizer can produce must have a row. Without a mapping the reference wants as
// many rows as there are entries.
Result<void> CheckVocabulary(const std::filesystem::path& directory, const Tokenizer& tokenizer,
                             const StaticTables& tables) {
  const size_t entries = tokenizer.vocabulary_size();
  const bool fits =
      tables.mapping.empty() ? entries == tables.rows() : entries <= tables.mapping.size();
  if (fits) return {};
  return Error(ErrorCode::kCorrupt,
               directory.string() + ": the tokenizer has " + std::to_string(entries) +
                   " entries, but " +
                   (tables.mapping.empty()
                        ? "the table has " + std::to_string(tables.rows()) + " rows"
                        : "mapping has " + std::to_string(tables.mapping.size()) + " values"));
}

std::string_view BytesOf(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

Result<std::string> StaticFingerprint(const StaticTables& tables, const TextRule& rule,
                                      bool normalize, size_t max_sequence,
                                      std::string_view tokenizer_behaviour) {
  FingerprintBuilder builder;
  builder.Add("architecture", "static");
  builder.AddNumber("normalize", normalize ? 1 : 0);
  builder.AddNumber("max_sequence", max_sequence);
  builder.AddNumber("max_characters", rule.max_characters);
  builder.AddNumber("dropped_id", rule.dropped_id ? *rule.dropped_id : UINT64_MAX);
  builder.Add("tokenizer", tokenizer_behaviour);
  builder.Add("mapping", BytesOf(tables.mapping));
  builder.Add("weights", BytesOf(tables.weights));
  Result<void> added = builder.AddTensor("embeddings", tables.embeddings, tables.file);
  if (!added.ok()) return std::move(added.error());
  return builder.Finish();
}

EngineInfo Describe(const std::filesystem::path& directory, const StaticConfig& config,
                    const StaticModel& model) {
  const StaticTables& tables = model.tables();
  EngineInfo info;
  info.family = "static";
  info.architecture = "model2vec";
  info.directory = directory;
  info.vocabulary = tables.tokens();
  info.dimensions = tables.dimensions();
  info.parameters = tables.embeddings.elements() + tables.weights.size();
  info.weight_bytes = model.weight_bytes();
  info.pooling = "mean";
  info.normalizes = config.normalize;
  info.max_length = config.max_length.value_or(0);
  info.weights_dtype = Name(tables.embeddings.dtype);
  info.arithmetic = model.arithmetic();
  info.kernels = model.kernels().name;
  info.threads = model.threads();
  info.device = "cpu";
  return info;
}

}  // namespace

Result<bool> IsStatic(const std::filesystem::path& directory) {
  const std::optional<StaticLayout> layout = FindStaticLayout(directory);
  if (!layout) {
    Result<void> complete = CheckStaticFiles(directory);
    return complete.ok() ? Result<bool>(false) : std::move(complete.error());
  }
  const Result<TensorFile> file = TensorFile::OpenFile(layout->directory / "model.safetensors");
  if (!file.ok()) return file.error();
  return HoldsStaticTable(file.value());
}

Result<LoadedModel> LoadStatic(const std::filesystem::path& directory,
                               const EngineOptions& options) {
  Result<void> options_fit = CheckOptions(options);
  if (!options_fit.ok()) return std::move(options_fit.error());
  Result<bool> as_model2vec = AsModel2Vec(options);
  if (!as_model2vec.ok()) return std::move(as_model2vec.error());
  const StaticLayout layout = FindStaticLayout(directory).value();
  Result<StaticConfig> config = ReadStaticConfig(layout);
  if (!config.ok()) return std::move(config.error());
  Result<Tokenizer> tokenizer = Tokenizer::Open(layout.directory);
  if (!tokenizer.ok()) return std::move(tokenizer.error());
  if (!as_model2vec.value()) {
    Result<void> followed =
        FollowSentenceTransformers(directory, tokenizer.value(), config.value());
    if (!followed.ok()) return std::move(followed.error());
  }
  if (options.max_length) config.value().max_length = options.max_length;
  Result<TensorFile> file = TensorFile::OpenFile(layout.directory / "model.safetensors");
  if (!file.ok()) return std::move(file.error());
  Result<StaticTables> tables = ReadStaticTables(std::move(file).value());
  if (!tables.ok()) return std::move(tables.error());
  Result<void> vocabulary = CheckVocabulary(directory, tokenizer.value(), tables.value());
  if (!vocabulary.ok()) return std::move(vocabulary.error());
  if (options.check_weights) {
    Result<void> finite = CheckFinite(tables.value().file, "embeddings", tables.value().embeddings);
    if (!finite.ok()) return std::move(finite.error());
    const std::vector<float>& weights = tables.value().weights;
    const auto wrong = std::find_if_not(weights.begin(), weights.end(),
                                        [](float weight) { return std::isfinite(weight); });
    if (wrong != weights.end()) {
      return Error(ErrorCode::kCorrupt, tables.value().file.path().string() +
                                            ": tensor 'weights' holds " + std::to_string(*wrong) +
                                            " at " + std::to_string(wrong - weights.begin()));
    }
  }
  Result<std::unique_ptr<StaticModel>> model =
      StaticModel::Create(std::move(tables).value(), config.value().max_length, options.threads);
  if (!model.ok()) return std::move(model.error());

  LoadedModel loaded;
  loaded.text_rule.add_special_tokens = false;
  loaded.sorts_by_length = false;
  loaded.normalizes = config.value().normalize;
  if (as_model2vec.value()) {
    loaded.text_rule.dropped_id = tokenizer.value().UnknownId();
    loaded.text_rule.max_characters =
        config.value().max_length.value_or(0) * MedianTokenLength(tokenizer.value());
  }
  loaded.info = Describe(directory, config.value(), *model.value());
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer).value());
  loaded.fingerprint = [tables = &model.value()->tables(), rule = loaded.text_rule,
                        tokenizer = loaded.tokenizer.get(), parse = options.parse_special_tokens,
                        normalize = loaded.normalizes,
                        max_sequence = model.value()->max_sequence()] {
    return StaticFingerprint(*tables, rule, normalize, max_sequence,
                             FullBehaviour(*tokenizer, parse));
  };
  loaded.static_model = model.value().get();
  loaded.model = std::move(model).value();
  return loaded;
}

}  // namespace sprat
