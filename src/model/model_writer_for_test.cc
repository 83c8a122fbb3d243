#include "model/model_writer_for_test.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "base/check.h"
#include "base/narrow_floats.h"

namespace sprat {
namespace {

// ---- numbers -----------------------------------------------------------------------------------

void AppendLittleEndian(std::string& bytes, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 255));
}

uint16_t ToHalf(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;  // halfway to 2^16 and above: infinity
  if (magnitude < 0x1.0p-14f) {                     // subnormal: a multiple of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);                       // in [0.5, 1)
  const auto steps = static_cast<uint32_t>(std::nearbyint(fraction * 2048.0f));  // 1024 .. 2048
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(exponent + 13) * 1024 + steps));
}

void AppendValue(std::string& bytes, float value, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return AppendLittleEndian(bytes, std::bit_cast<uint32_t>(value), 4);
    case DType::kF16:
      return AppendLittleEndian(bytes, ToHalf(value), 2);
    case DType::kBF16:
      return AppendLittleEndian(bytes, FloatToBf16(value), 2);
    case DType::kI64:
      return AppendLittleEndian(bytes, static_cast<uint64_t>(static_cast<int64_t>(value)), 8);
    default:
      CHECK(false && "a dtype that tests do not write");
  }
}

// ---- weights -----------------------------------------------------------------------------------

TestTensor Drawn(std::string name, std::vector<uint64_t> shape, uint64_t seed) {
  TestTensor tensor{.name = std::move(name), .shape = std::move(shape), .values = {}};
  uint64_t elements = 1;
  for (const uint64_t dimension : tensor.shape) elements *= dimension;
  // A generator a tensor, so that a tensor does not change when another is added. FNV-1a.
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : tensor.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  std::mt19937_64 random(hash);
  const bool scale = tensor.name.ends_with("LayerNorm.weight");
  for (uint64_t i = 0; i < elements; ++i) {
    const auto whole = static_cast<float>(static_cast<int>(random() % 255) - 127);
    tensor.values.push_back(scale ? 1.0f + std::nearbyint(whole / 4) * 0x1.0p-7f
                                  : whole * 0x1.0p-9f);
  }
  return tensor;
}

std::string StoredName(std::string name, const TinyModel& model) {
  if (model.gamma_beta) {
    for (const auto& [now, old] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                                   std::pair("LayerNorm.bias", "LayerNorm.beta")}) {
      if (name.ends_with(now)) name.replace(name.size() - std::strlen(now), name.npos, old);
    }
  }
  return model.prefix + name;
}

uint32_t VocabularyRows(const TinyModel& model) {
  if (model.config.vocabulary != 0) return model.config.vocabulary;
  const size_t entries =
      model.vocabulary.empty() ? TinyVocabulary().size() : model.vocabulary.size();
  return static_cast<uint32_t>(entries);
}

void WriteWeights(const TinyModel& model, const std::filesystem::path& directory) {
  std::vector<TestTensor> tensors = model.Tensors();
  for (TestTensor& tensor : tensors) {
    if (model.edit) model.edit(tensor);
    tensor.name = StoredName(std::move(tensor.name), model);
    if (tensor.dtype == DType::kF32) tensor.dtype = model.dtype;
  }
  if (model.shards <= 1) {
    return WriteTestFile(directory / "model.safetensors", SafetensorsBytes(tensors));
  }
  std::string weight_map;
  for (size_t shard = 0; shard < model.shards; ++shard) {
    const std::string file =
        fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, model.shards);
    std::vector<TestTensor> part;
    for (size_t i = shard; i < tensors.size(); i += model.shards) {
      part.push_back(tensors[i]);
      weight_map += fmt::format("{}{}: {}", weight_map.empty() ? "" : ", ",
                                JsonQuoted(tensors[i].name), JsonQuoted(file));
    }
    WriteTestFile(directory / file, SafetensorsBytes(part));
  }
  WriteTestFile(
      directory / "model.safetensors.index.json",
      fmt::format("{{\"metadata\": {{\"total_size\": 0}}, \"weight_map\": {{{}}}}}", weight_map));
}

// ---- the other files ---------------------------------------------------------------------------

void WriteConfig(const TinyModel& model, const std::filesystem::path& directory) {
  const EncoderConfig& config = model.config;
  std::string_view activation = "gelu";
  if (config.activation == Activation::kGeluTanh) activation = "gelu_new";
  if (config.activation == Activation::kRelu) activation = "relu";
  std::map<std::string, std::string> entries = {
      {"model_type", "\"bert\""},
      {"architectures", "[\"BertModel\"]"},
      {"num_hidden_layers", std::to_string(config.layers)},
      {"hidden_size", std::to_string(config.hidden)},
      {"num_attention_heads", std::to_string(config.heads)},
      {"intermediate_size", std::to_string(config.ffn)},
      {"vocab_size", std::to_string(VocabularyRows(model))},
      {"max_position_embeddings", std::to_string(config.positions)},
      {"type_vocab_size", std::to_string(config.token_types)},
      {"layer_norm_eps", fmt::format("{}", config.layer_norm_eps)},
      {"hidden_act", JsonQuoted(activation)},
      {"position_embedding_type", "\"absolute\""},
      {"pad_token_id", "0"},
  };
  for (const auto& [key, text] : model.config_json) entries[key] = text;
  std::string json;
  for (const auto& [key, text] : entries) {
    if (text.empty()) continue;
    json += fmt::format("{}\n  {}: {}", json.empty() ? "{" : ",", JsonQuoted(key), text);
  }
  WriteTestFile(directory / "config.json", json + "\n}\n");
}

// The fast tokenizer that transformers makes from a vocab.txt: ids and behaviour are the same.
std::string TokenizerJson(const std::vector<std::string>& vocabulary, bool lowercase) {
  std::string entries;
  std::string added;
  size_t cls = 0, sep = 0;
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary[id];
    entries += fmt::format("{}{}: {}", id == 0 ? "" : ", ", JsonQuoted(token), id);
    if (token == "[CLS]") cls = id;
    if (token == "[SEP]") sep = id;
    if (token == "[PAD]" || token == "[UNK]" || token == "[CLS]" || token == "[SEP]" ||
        token == "[MASK]") {
      added += fmt::format(
          "{}{{\"id\": {}, \"special\": true, \"content\": {}, \"single_word\": false, "
          "\"lstrip\": false, \"rstrip\": false, \"normalized\": false}}",
          added.empty() ? "" : ", ", id, JsonQuoted(token));
    }
  }
  return fmt::format(
      R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{}],
"normalizer": {{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
  "strip_accents": null, "lowercase": {}}},
"pre_tokenizer": {{"type": "BertPreTokenizer"}},
"post_processor": {{"type": "TemplateProcessing",
  "single": [{{"SpecialToken": {{"id": "[CLS]", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}},
    {{"SpecialToken": {{"id": "[SEP]", "type_id": 0}}}}],
  "pair": [{{"SpecialToken": {{"id": "[CLS]", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}},
    {{"SpecialToken": {{"id": "[SEP]", "type_id": 0}}}}, {{"Sequence": {{"id": "B", "type_id": 1}}}},
    {{"SpecialToken": {{"id": "[SEP]", "type_id": 1}}}}],
  "special_tokens": {{"[CLS]": {{"id": "[CLS]", "ids": [{}], "tokens": ["[CLS]"]}},
    "[SEP]": {{"id": "[SEP]", "ids": [{}], "tokens": ["[SEP]"]}}}}}},
"decoder": {{"type": "WordPiece", "prefix": "##", "cleanup": true}},
"model": {{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 100, "vocab": {{{}}}}}}})",
      added, lowercase, cls, sep, entries);
}

void WriteTokenizer(const TinyModel& model, const std::filesystem::path& directory) {
  const std::vector<std::string> vocabulary =
      model.vocabulary.empty() ? TinyVocabulary() : model.vocabulary;
  if (model.vocab_txt) {
    std::string lines;
    for (const std::string& entry : vocabulary) lines += entry + "\n";
    WriteTestFile(directory / "vocab.txt", lines);
    WriteTestFile(directory / "tokenizer_config.json",
                  // The number is how transformers writes "no limit".
                  fmt::format("{{\"do_lower_case\": {}, \"strip_accents\": null, "
                              "\"tokenize_chinese_chars\": true, \"model_max_length\": "
                              "1000000000000000019884624838656, "
                              "\"tokenizer_class\": \"BertTokenizer\"}}\n",
                              model.lowercase));
  }
  if (model.tokenizer_json) {
    WriteTestFile(directory / "tokenizer.json", TokenizerJson(vocabulary, model.lowercase));
  }
}

void WriteModules(const TinyModel& model, const std::filesystem::path& directory) {
  constexpr std::string_view kModule =
      "{{\"idx\": {0}, \"name\": \"{0}\", \"path\": \"{1}\", "
      "\"type\": \"sentence_transformers.models.{2}\"}}";
  std::string modules = fmt::format(kModule, 0, "", "Transformer") + ",\n  " +
                        fmt::format(kModule, 1, "1_Pooling", "Pooling");
  if (model.normalize) modules += ",\n  " + fmt::format(kModule, 2, "2_Normalize", "Normalize");
  WriteTestFile(directory / "modules.json", "[\n  " + modules + "\n]\n");
  if (!model.pooling_folder) return;
  std::string flags;
  for (const auto& [mode, flag] :
       {std::pair(Pooling::kCls, "cls_token"), std::pair(Pooling::kMean, "mean_tokens"),
        std::pair(Pooling::kMax, "max_tokens"),
        std::pair(Pooling::kMeanSqrtLen, "mean_sqrt_len_tokens"),
        std::pair(Pooling::kWeightedMean, "weightedmean_tokens"),
        std::pair(Pooling::kLastToken, "lasttoken")}) {
    const bool set =
        std::find(model.pooling.begin(), model.pooling.end(), mode) != model.pooling.end();
    flags += fmt::format(",\n  \"pooling_mode_{}\": {}", flag, set);
  }
  WriteTestFile(
      directory / "1_Pooling" / "config.json",
      fmt::format("{{\n  \"word_embedding_dimension\": {}{}\n}}\n", model.config.hidden, flags));
}

void WriteSentenceFiles(const TinyModel& model, const std::filesystem::path& directory) {
  if (model.max_sequence) {
    WriteTestFile(
        directory / "sentence_bert_config.json",
        fmt::format("{{\"max_seq_length\": {}, \"do_lower_case\": false}}\n", *model.max_sequence));
  }
  if (model.prompts.empty() && !model.default_prompt_name) return;
  std::string prompts;
  for (const auto& [name, text] : model.prompts) {
    prompts +=
        fmt::format("{}{}: {}", prompts.empty() ? "" : ", ", JsonQuoted(name), JsonQuoted(text));
  }
  WriteTestFile(directory / "config_sentence_transformers.json",
                fmt::format("{{\"prompts\": {{{}}}, \"default_prompt_name\": {}}}\n", prompts,
                            model.default_prompt_name ? JsonQuoted(*model.default_prompt_name)
                                                      : std::string("null")));
}

// ---- temporary directories ---------------------------------------------------------------------

// Removes what NewTestDirectory made when the program ends.
class TestDirectories {
 public:
  ~TestDirectories() {
    std::error_code ignored;
    for (const std::filesystem::path& path : made_) std::filesystem::remove_all(path, ignored);
  }
  void Add(const std::filesystem::path& path) { made_.push_back(path); }

 private:
  std::vector<std::filesystem::path> made_;
};

}  // namespace

std::string JsonQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string RawSafetensors(std::string_view header, std::string_view data) {
  std::string bytes;
  AppendLittleEndian(bytes, header.size(), 8);
  bytes += header;
  bytes += data;
  return bytes;
}

std::string SafetensorsBytes(const std::vector<TestTensor>& tensors) {
  std::string header;
  std::string data;
  for (const TestTensor& tensor : tensors) {
    const size_t begin = data.size();
    for (const float value : tensor.values) AppendValue(data, value, tensor.dtype);
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.empty() ? "{" : ",", JsonQuoted(tensor.name), Name(tensor.dtype),
                          fmt::join(tensor.shape, ","), begin, data.size());
  }
  header += header.empty() ? "{}" : "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return RawSafetensors(header, data);
}

void WriteTestFile(const std::filesystem::path& path, std::string_view content) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  CHECK(file.good());
}

std::filesystem::path NewTestDirectory(std::string_view name) {
  static TestDirectories directories;
  std::string pattern =
      (std::filesystem::temp_directory_path() / (std::string(name) + ".XXXXXX")).string();
  CHECK(mkdtemp(pattern.data()) != nullptr);
  directories.Add(pattern);
  return pattern;
}

std::vector<std::string> TinyVocabulary() {
  std::vector<std::string> vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (const std::string_view word :
       {"good", "morning", "world", "river", "bank", "query", "passage", "word", "rain", "bow"}) {
    vocabulary.emplace_back(word);
  }
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyz0123456789")) {
    vocabulary.emplace_back(1, c);
    vocabulary.push_back(std::string("##") + c);
  }
  for (const char c : std::string_view("!\"'(),-.:;?[]")) vocabulary.emplace_back(1, c);
  return vocabulary;
}

std::vector<std::string> ReadVocabulary(const std::filesystem::path& vocab_txt) {
  std::ifstream file(vocab_txt);
  CHECK(file.good());
  std::vector<std::string> entries;
  for (std::string line; std::getline(file, line);) entries.push_back(line);
  return entries;
}

std::vector<TestTensor> TinyModel::Tensors() const {
  const uint64_t hidden = config.hidden;
  std::vector<TestTensor> tensors;
  const auto add = [&](std::string name, std::vector<uint64_t> shape) {
    tensors.push_back(Drawn(std::move(name), std::move(shape), seed));
  };
  const auto linear = [&](const std::string& name, uint64_t out, uint64_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".LayerNorm.weight", {hidden});
    add(name + ".LayerNorm.bias", {hidden});
  };
  add("embeddings.word_embeddings.weight", {VocabularyRows(*this), hidden});
  add("embeddings.position_embeddings.weight", {config.positions, hidden});
  add("embeddings.token_type_embeddings.weight", {config.token_types, hidden});
  norm("embeddings");
  for (uint32_t i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("encoder.layer.{}.", i);
    for (const std::string_view part : {"query", "key", "value"}) {
      linear(fmt::format("{}attention.self.{}", layer, part), hidden, hidden);
    }
    linear(layer + "attention.output.dense", hidden, hidden);
    norm(layer + "attention.output");
    linear(layer + "intermediate.dense", config.ffn, hidden);
    linear(layer + "output.dense", hidden, config.ffn);
    norm(layer + "output");
  }
  if (unused_tensors) {
    linear("pooler.dense", hidden, hidden);
    linear("cls.predictions.transform.dense", hidden, hidden);
    TestTensor positions{.name = "embeddings.position_ids",
                         .shape = {1, config.positions},
                         .values = {},
                         .dtype = DType::kI64};
    for (uint32_t i = 0; i < config.positions; ++i) {
      positions.values.push_back(static_cast<float>(i));
    }
    tensors.push_back(std::move(positions));
  }
  return tensors;
}

void TinyModel::Write(const std::filesystem::path& directory) const {
  std::filesystem::create_directories(directory);
  WriteConfig(*this, directory);
  if (write_weights) WriteWeights(*this, directory);
  WriteTokenizer(*this, directory);
  if (modules_json) WriteModules(*this, directory);
  WriteSentenceFiles(*this, directory);
}

std::filesystem::path TinyModel::Write() const {
  std::filesystem::path directory = NewTestDirectory("sprat-model");
  Write(directory);
  return directory;
}

}  // namespace sprat
