#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/json.h"

namespace sprat {
namespace {

struct PoolingName {
  Pooling pooling;
  std::string_view name;    // as the command line and the documents write it
  std::string_view module;  // as Pooling's "pooling_mode" writes it
  std::string_view flag;    // as older Pooling files write it, one boolean a mode
};
constexpr std::array kPoolings{
    PoolingName{Pooling::kCls, "cls", "cls", "pooling_mode_cls_token"},
    PoolingName{Pooling::kMean, "mean", "mean", "pooling_mode_mean_tokens"},
    PoolingName{Pooling::kMax, "max", "max", "pooling_mode_max_tokens"},
    PoolingName{Pooling::kMeanSqrtLen, "mean_sqrt_len", "mean_sqrt_len_tokens",
                "pooling_mode_mean_sqrt_len_tokens"},
    PoolingName{Pooling::kWeightedMean, "weightedmean", "weightedmean",
                "pooling_mode_weightedmean_tokens"},
    PoolingName{Pooling::kLastToken, "lasttoken", "lasttoken", "pooling_mode_lasttoken"},
};
constexpr uint32_t kLeastSequence{3};
constexpr std::string_view kPoolingList{"cls, mean, max, mean_sqrt_len, weightedmean, lasttoken"};

// A key that must have one value, because any other changes the vectors in a way not built here.
// An absent key has that value in the reference.
struct FixedString {
  std::string_view key;
  std::string_view value;
};
struct FixedBool {
  std::string_view key;
  bool value;
};

Result<void> RequireStrings(const JsonFields& fields, std::initializer_list<FixedString> required) {
  for (const FixedString& fixed : required) {
    Result<std::optional<std::string>> value = fields.String(fixed.key);
    if (!value.ok()) return std::move(value.error());
    if (value.value() && *value.value() != fixed.value) {
      return fields.Unsupported(fixed.key, *value.value(), fixed.value);
    }
  }
  return {};
}

Result<void> RequireBools(const JsonFields& fields, std::initializer_list<FixedBool> required) {
  for (const FixedBool& fixed : required) {
    Result<std::optional<bool>> value = fields.Bool(fixed.key);
    if (!value.ok()) return std::move(value.error());
    if (value.value().value_or(fixed.value) != fixed.value) {
      return fields.Unsupported(fixed.key, fixed.value ? "false" : "true",
                                fixed.value ? "true" : "false");
    }
  }
  return {};
}

// The fields of `directory`/`name`; nullopt if there is no such file.
struct JsonObject {
  JsonDocument document;
  JsonFields fields;
};
Result<std::optional<JsonObject>> ReadOptional(const std::filesystem::path& path) {
  Result<JsonDocument> document = JsonDocument::Read(path);
  if (!document.ok() && document.error().code() == ErrorCode::kNotFound) {
    return std::optional<JsonObject>();
  }
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::object> object = document.value().Object();
  if (!object.ok()) return std::move(object.error());
  JsonFields fields(path.string(), object.value());
  return std::optional<JsonObject>(
      JsonObject{.document = std::move(document).value(), .fields = std::move(fields)});
}

Result<void> CheckDirectory(const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(directory, ignored);
  if (status.type() == std::filesystem::file_type::not_found) {
    return Error(ErrorCode::kNotFound, directory.string() + ": no such model directory");
  }
  if (status.type() == std::filesystem::file_type::directory ||
      status.type() == std::filesystem::file_type::none) {
    return {};  // what cannot be looked at is reported by the first file that is opened
  }
  return Error(ErrorCode::kNotFound,
               directory.string() + ": a file, expected the directory that holds the model");
}

// ---- config.json -----------------------------------------------------------------------------

Result<void> CheckArchitecture(const JsonFields& fields) {
  Result<std::optional<std::string>> model_type = fields.String("model_type");
  if (!model_type.ok()) return std::move(model_type.error());
  if (!model_type.value()) return fields.Missing("model_type", "\"bert\"");
  if (*model_type.value() != "bert") {
    return fields.Unsupported("model_type", *model_type.value(), "bert");
  }
  Result<void> strings = RequireStrings(fields, {{"position_embedding_type", "absolute"}});
  if (!strings.ok()) return strings;
  Result<void> bools =
      RequireBools(fields, {{"is_decoder", false}, {"add_cross_attention", false}});
  if (!bools.ok()) return bools;
  if (const auto quantized = fields.Find("quantization_config")) {
    return fields.Unsupported("quantization_config", Shown(*quantized), "no such key");
  }
  const auto pruned = fields.Find("pruned_heads");
  if (pruned && Shown(*pruned) != "{}") {
    return fields.Unsupported("pruned_heads", Shown(*pruned), "{}");
  }
  return {};
}

Result<void> ReadSizes(const JsonFields& fields, EncoderConfig& config) {
  struct Size {
    std::string_view key;
    uint32_t* value;
    uint64_t most;  // far above any published model; keeps products of two or three in 64 bits
    bool required;
  };
  const Size sizes[] = {
      {"num_hidden_layers", &config.layers, 1024, true},
      {"hidden_size", &config.hidden, 65536, true},
      {"num_attention_heads", &config.heads, 65536, true},
      {"intermediate_size", &config.ffn, 1 << 20, true},
      {"vocab_size", &config.vocabulary, 1 << 26, true},
      {"max_position_embeddings", &config.positions, 1 << 24, true},
      {"type_vocab_size", &config.token_types, 65536, false},
  };
  for (const Size& size : sizes) {
    Result<std::optional<uint64_t>> value =
        fields.Integer(size.key, {.least = 1, .most = size.most});
    if (!value.ok()) return std::move(value.error());
    if (value.value()) {
      *size.value = static_cast<uint32_t>(*value.value());
    } else if (size.required) {
      return fields.Missing(size.key, "a positive whole number");
    }
  }
  if (config.hidden % config.heads != 0) {
    return Error(
        ErrorCode::kCorrupt,
        fmt::format("{}: num_attention_heads: expected a divisor of hidden_size {}, got {}",
                    fields.origin(), config.hidden, config.heads));
  }
  return {};
}

Result<void> ReadNumerics(const JsonFields& fields, EncoderConfig& config) {
  Result<std::optional<double>> eps = fields.Number("layer_norm_eps");
  if (!eps.ok()) return std::move(eps.error());
  if (eps.value()) {
    if (!(*eps.value() >= 0.0 && *eps.value() <= 1.0)) {
      return fields.Wrong("layer_norm_eps", "a number from 0 to 1", *fields.Find("layer_norm_eps"));
    }
    config.layer_norm_eps = static_cast<float>(*eps.value());
  }
  Result<std::optional<std::string>> activation = fields.String("hidden_act");
  if (!activation.ok()) return std::move(activation.error());
  const std::string name = activation.value().value_or("gelu");
  if (name == "gelu") {
    config.activation = Activation::kGelu;
  } else if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    config.activation = Activation::kGeluTanh;
  } else if (name == "relu") {
    config.activation = Activation::kRelu;
  } else {
    return fields.Unsupported("hidden_act", name, "gelu, gelu_new, gelu_pytorch_tanh, relu");
  }
  return {};
}

// ---- modules.json and the modules' own files ---------------------------------------------------

// The modules that modules.json lists; `pooling` is the folder of the Pooling module.
struct Modules {
  std::filesystem::path pooling;
  bool normalize = false;
};

std::string_view LastComponent(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

Error UnsupportedModules(const std::string& file, std::string_view what) {
  return Error(ErrorCode::kUnsupported,
               fmt::format("{}: {} is not supported; supported: Transformer, Pooling and, "
                           "optionally, Normalize, in this order",
                           file, what));
}

// One entry of modules.json. `position` counts from 0: its place decides what it must be.
Result<void> ReadModule(const std::filesystem::path& file, size_t position,
                        simdjson::dom::element entry, Modules& modules) {
  const std::string place = fmt::format("{}: module {}", file.string(), position);
  simdjson::dom::object object;
  if (entry.get(object) != simdjson::SUCCESS) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: expected an object, got {}", place, Shown(entry)));
  }
  const JsonFields fields(place, object);
  Result<std::optional<std::string>> type = fields.String("type");
  if (!type.ok()) return std::move(type.error());
  if (!type.value()) return fields.Missing("type", "a string");
  Result<std::optional<std::string>> path = fields.String("path");
  if (!path.ok()) return std::move(path.error());
  const std::string folder = path.value().value_or("");
  if (folder.find('/') != folder.npos || folder == "..") {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{}: path '{}' is not supported; supported: a folder of the model's "
                             "directory",
                             place, folder));
  }
  const std::string_view name = LastComponent(*type.value());
  constexpr std::array<std::string_view, 3> kOrder{"Transformer", "Pooling", "Normalize"};
  if (position >= kOrder.size() || name != kOrder[position]) {
    return UnsupportedModules(file.string(),
                              fmt::format("module {} of type '{}'", position, *type.value()));
  }
  if (name == "Transformer" && !folder.empty() && folder != ".") {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{}: a Transformer in folder '{}' is not supported; supported: in "
                             "the model's directory itself",
                             place, folder));
  }
  if (name == "Pooling") modules.pooling = file.parent_path() / folder;
  if (name == "Normalize") modules.normalize = true;  // it has no parameters and may have no folder
  return {};
}

// nullopt if there is no modules.json.
Result<std::optional<Modules>> ReadModules(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "modules.json";
  Result<JsonDocument> document = JsonDocument::Read(file);
  if (!document.ok() && document.error().code() == ErrorCode::kNotFound) {
    return std::optional<Modules>();
  }
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::array> entries = document.value().Array();
  if (!entries.ok()) return std::move(entries.error());
  Modules modules;
  size_t position = 0;
  for (const simdjson::dom::element entry : entries.value()) {
    Result<void> read = ReadModule(file, position, entry, modules);
    if (!read.ok()) return std::move(read.error());
    ++position;
  }
  if (position < 2) {
    return UnsupportedModules(file.string(), fmt::format("a list of {} modules", position));
  }
  return std::optional<Modules>(std::move(modules));
}

// The mode of a file with a "pooling_mode" (sentence-transformers 6), a name or a list of one.
Result<Pooling> PoolingOfMode(const JsonFields& fields, simdjson::dom::element mode) {
  simdjson::dom::array list;
  if (mode.get(list) == simdjson::SUCCESS && list.size() == 1) mode = list.at(0).value();
  if (mode.is_array()) return fields.Unsupported("pooling_mode", Shown(mode), "one mode");
  if (!mode.is_string()) return fields.Wrong("pooling_mode", "a string", mode);
  const std::string_view name(mode);
  for (const PoolingName& row : kPoolings) {
    if (row.module == name) return row.pooling;
  }
  return fields.Unsupported("pooling_mode", name, kPoolingList);
}

// The mode of a file with one boolean a mode. None set means mean, as in the reference.
Result<Pooling> PoolingOfFlags(const JsonFields& fields) {
  std::vector<const PoolingName*> set;
  for (const PoolingName& row : kPoolings) {
    Result<std::optional<bool>> flag = fields.Bool(row.flag);
    if (!flag.ok()) return std::move(flag.error());
    if (flag.value().value_or(false)) set.push_back(&row);
  }
  if (set.empty()) return Pooling::kMean;
  if (set.size() == 1) return set[0]->pooling;
  return fields.Unsupported(set[1]->flag, "true",
                            fmt::format("one mode at a time, and {} is true too", set[0]->flag));
}

Result<Pooling> ReadPooling(const std::filesystem::path& folder, uint32_t hidden) {
  const std::filesystem::path file = folder / "config.json";
  Result<std::optional<JsonObject>> object = ReadOptional(file);
  if (!object.ok()) return std::move(object.error());
  if (!object.value()) {
    return Error(ErrorCode::kNotFound,
                 file.string() + ": no such file; modules.json lists this Pooling module");
  }
  const JsonFields& fields = object.value()->fields;
  Result<void> supported = RequireBools(fields, {{"include_prompt", true}});
  if (!supported.ok()) return std::move(supported.error());
  for (const std::string_view key : {"word_embedding_dimension", "embedding_dimension"}) {
    Result<std::optional<uint64_t>> width = fields.Integer(key, {.least = hidden, .most = hidden});
    if (!width.ok()) return std::move(width.error());  // it differs from hidden_size
  }
  if (const auto mode = fields.Find("pooling_mode")) return PoolingOfMode(fields, *mode);
  return PoolingOfFlags(fields);
}

// ---- sentence_bert_config.json, tokenizer_config.json ------------------------------------------

// A number of tokens, lowered to `most`; nullopt if `key` is absent. Published files say "no limit"
// by 1e30 and the like.
Result<std::optional<uint32_t>> ReadLimit(const JsonFields& fields, std::string_view key,
                                          uint32_t most) {
  Result<std::optional<double>> limit = fields.Number(key);
  if (!limit.ok()) return std::move(limit.error());
  if (!limit.value()) return std::optional<uint32_t>();
  if (!(*limit.value() >= 1) || *limit.value() != std::floor(*limit.value())) {
    return fields.Wrong(key, "a positive whole number", *fields.Find(key));
  }
  return std::optional<uint32_t>(*limit.value() < most ? static_cast<uint32_t>(*limit.value())
                                                       : most);
}

// What sentence_bert_config.json says, if it is there: the limit, and that texts are lower-cased.
Result<std::optional<uint32_t>> ReadTransformer(const std::filesystem::path& directory,
                                                uint32_t positions, SentenceConfig& config) {
  Result<std::optional<JsonObject>> object = ReadOptional(directory / "sentence_bert_config.json");
  if (!object.ok()) return std::move(object.error());
  if (!object.value()) return std::optional<uint32_t>();
  const JsonFields& fields = object.value()->fields;
  Result<void> task = RequireStrings(fields, {{"transformer_task", "feature-extraction"}});
  if (!task.ok()) return std::move(task.error());
  for (const std::string_view key : {"query_length", "document_length"}) {
    if (const auto length = fields.Find(key)) {
      return fields.Unsupported(key, Shown(*length), "max_seq_length for every text");
    }
  }
  Result<std::optional<bool>> lowercase = fields.Bool("do_lower_case");
  if (!lowercase.ok()) return std::move(lowercase.error());
  config.lowercase = lowercase.value().value_or(false);
  return ReadLimit(fields, "max_seq_length", positions);
}

// The largest number of tokens: max_seq_length of sentence_bert_config.json, else model_max_length
// of tokenizer_config.json; never more than the position table has rows.
Result<void> ReadLimits(const std::filesystem::path& directory, const EncoderConfig& encoder,
                        SentenceConfig& config) {
  Result<std::optional<uint32_t>> limit = ReadTransformer(directory, encoder.positions, config);
  if (limit.ok() && !limit.value()) {
    Result<std::optional<JsonObject>> tokenizer = ReadOptional(directory / "tokenizer_config.json");
    if (!tokenizer.ok()) return std::move(tokenizer.error());
    if (tokenizer.value()) {
      limit = ReadLimit(tokenizer.value()->fields, "model_max_length", encoder.positions);
    }
  }
  if (!limit.ok()) return std::move(limit.error());
  config.max_sequence = limit.value().value_or(encoder.positions);
  if (config.max_sequence < kLeastSequence) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: a maximum of {} tokens (max_seq_length, model_max_length, "
                             "max_position_embeddings), expected at least {}, for a word between "
                             "[CLS] and [SEP]",
                             directory.string(), config.max_sequence, kLeastSequence));
  }
  return {};
}

// ---- config_sentence_transformers.json ---------------------------------------------------------

Result<void> ReadPrompts(const std::filesystem::path& directory, SentenceConfig& config) {
  Result<std::optional<JsonObject>> object =
      ReadOptional(directory / "config_sentence_transformers.json");
  if (!object.ok()) return std::move(object.error());
  if (!object.value()) return {};
  const JsonFields& fields = object.value()->fields;
  Result<void> kind = RequireStrings(fields, {{"model_type", "SentenceTransformer"}});
  if (!kind.ok()) return kind;
  if (const auto prompts = fields.Find("prompts")) {
    simdjson::dom::object texts;
    if (prompts->get(texts) != simdjson::SUCCESS) {
      return fields.Wrong("prompts", "an object", *prompts);
    }
    for (const simdjson::dom::key_value_pair field : texts) {
      if (!field.value.is_string() && !field.value.is_null()) {
        return fields.Wrong(fmt::format("prompts[\"{}\"]", field.key), "a string", field.value);
      }
      // null is how sentence-transformers writes a prompt that nobody chose: no text is prepended.
      const std::string_view text =
          field.value.is_null() ? std::string_view() : std::string_view(field.value);
      config.prompts.emplace(field.key, text);
    }
  }
  Result<std::optional<std::string>> name = fields.String("default_prompt_name");
  if (!name.ok()) return std::move(name.error());
  if (name.value() && !config.prompts.contains(*name.value())) {
    return fields.Wrong("default_prompt_name", "a name of prompts",
                        *fields.Find("default_prompt_name"));
  }
  config.default_prompt_name = std::move(name).value();
  return {};
}

}  // namespace

std::string_view Name(Pooling pooling) {
  return std::find_if(kPoolings.begin(), kPoolings.end(),
                      [&](const PoolingName& row) { return row.pooling == pooling; })
      ->name;
}

Result<Pooling> ParsePooling(std::string_view name) {
  for (const PoolingName& row : kPoolings) {
    if (row.name == name) return row.pooling;
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("pooling: expected one of {}, got '{}'", kPoolingList, name));
}

Result<EncoderConfig> ReadEncoderConfig(const std::filesystem::path& directory) {
  Result<void> exists = CheckDirectory(directory);
  if (!exists.ok()) return std::move(exists.error());
  Result<JsonDocument> document = JsonDocument::Read(directory / "config.json");
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::object> object = document.value().Object();
  if (!object.ok()) return std::move(object.error());
  const JsonFields fields(document.value().origin(), object.value());
  EncoderConfig config;
  Result<void> read = CheckArchitecture(fields);
  if (read.ok()) read = ReadSizes(fields, config);
  if (read.ok()) read = ReadNumerics(fields, config);
  if (!read.ok()) return std::move(read.error());
  return config;
}

Result<SentenceConfig> ReadSentenceConfig(const std::filesystem::path& directory,
                                          const EncoderConfig& encoder) {
  SentenceConfig config;
  Result<std::optional<Modules>> modules = ReadModules(directory);
  if (!modules.ok()) return std::move(modules.error());
  if (modules.value()) {
    Result<Pooling> pooling = ReadPooling(modules.value()->pooling, encoder.hidden);
    if (!pooling.ok()) return std::move(pooling.error());
    config.pooling = pooling.value();
    config.normalize = modules.value()->normalize;
  } else {
    config.warnings.push_back((directory / "modules.json").string() +
                              ": no such file; mean pooling is assumed, without normalisation");
  }
  Result<void> read = ReadLimits(directory, encoder, config);
  if (read.ok()) read = ReadPrompts(directory, config);
  if (!read.ok()) return std::move(read.error());
  return config;
}

}  // namespace sprat
