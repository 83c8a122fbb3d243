#include "ngram/tiny_ngram_for_test.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "ngram/number_formats.h"

namespace sprat {
namespace {

std::vector<float> RandomBf16(size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = Bf16ToFloat(FloatToBf16(normal(random)));
  return values;
}

std::string ConfigJson(const TinyNgram& model) {
  const char* prefix = model.newer_names ? "oe_" : "emb_";
  std::map<std::string, std::string> entries{
      {"architectures", "[\"LongcatFlashNgramForCausalLM\"]"},
      {"vocab_size", std::to_string(model.vocabulary)},
      {"hidden_size", std::to_string(model.hidden)},
      {model.newer_names ? "oe_vocab_size_ratio" : "ngram_vocab_size_ratio",
       fmt::format("{}", model.ratio)},
      {std::string(prefix) + "neighbor_num", std::to_string(model.neighbours)},
      {std::string(prefix) + "split_num", std::to_string(model.splits)},
      {"eos_token_id", std::to_string(model.eos)}};
  if (model.row_multiple > 1) entries["embP"] = std::to_string(model.row_multiple);
  for (const auto& [key, text] : model.config_json) entries[key] = text;
  std::string json;
  for (const auto& [key, text] : entries) {
    json += fmt::format("{}\"{}\": {}", json.empty() ? "{" : ", ", key, text);
  }
  return json + "}";
}

std::string Prefix(const TinyNgram& model) { return model.bare_names ? "" : "model."; }

std::vector<TestTensor> Tensors(const TinyNgram& model) {
  std::vector<TestTensor> tensors;
  const auto add = [&](std::string name, std::vector<uint64_t> shape, std::vector<float> values) {
    const auto wrong = model.shapes.find(name);
    if (wrong != model.shapes.end()) {
      shape = wrong->second;
      uint64_t elements = 1;
      for (const uint64_t dimension : shape) elements *= dimension;
      values.resize(elements);
    }
    const auto other = model.dtypes.find(name);
    const DType dtype = other == model.dtypes.end() ? model.dtype : other->second;
    tensors.push_back({std::move(name), std::move(shape), std::move(values), dtype});
  };
  if (model.write_word) {
    add(Prefix(model) + "embed_tokens.weight", {model.vocabulary, model.hidden}, model.word);
  }
  for (uint32_t i = 0; i < model.count(); ++i) {
    std::vector<float> table = model.tables[i];
    table.resize(model.stored_rows(i) * model.width(), 1e30f);  // no padding row may be read
    add(model.TableName(i), {model.stored_rows(i), model.width()}, table);
    add(model.ProjectionName(i), {model.hidden, model.width()}, model.projections[i]);
  }
  return tensors;
}

}  // namespace

uint64_t TinyNgram::rows(uint32_t i) const {
  return static_cast<uint64_t>(ratio * vocabulary) + 2 * i + 1;
}

uint64_t TinyNgram::stored_rows(uint32_t i) const {
  return (rows(i) + row_multiple - 1) / row_multiple * row_multiple;
}

std::string TinyNgram::TableName(uint32_t i) const {
  return Prefix(*this) +
         fmt::format(fmt::runtime(newer_names ? "oe_embed_tokens{}.weight"
                                              : "ngram_embeddings.embedders.{}.weight"),
                     i);
}

std::string TinyNgram::ProjectionName(uint32_t i) const {
  return Prefix(*this) +
         fmt::format(fmt::runtime(newer_names ? "oe_embed_proj{}.weight"
                                              : "ngram_embeddings.post_projs.{}.weight"),
                     i);
}

void TinyNgram::Draw() {
  std::mt19937_64 random(seed);
  word = RandomBf16(size_t{vocabulary} * hidden, random);
  for (uint32_t i = 0; i < count(); ++i) {
    tables.push_back(RandomBf16(rows(i) * width(), random));
    projections.push_back(RandomBf16(size_t{hidden} * width(), random));
  }
}

std::filesystem::path TinyNgram::Write() {
  if (word.empty()) Draw();
  const std::filesystem::path directory = NewTestDirectory("tiny_ngram");
  WriteTestFile(directory / "config.json", ConfigJson(*this));
  const std::vector<TestTensor> tensors = Tensors(*this);
  if (shards == 1) {
    WriteTestFile(directory / "model.safetensors", SafetensorsBytes(tensors));
    return directory;
  }
  std::vector<std::vector<TestTensor>> parts(shards);
  std::string map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    parts[i % shards].push_back(tensors[i]);
    map += fmt::format("{}\"{}\": \"part{}.safetensors\"", map.empty() ? "" : ", ", tensors[i].name,
                       i % shards);
  }
  for (size_t i = 0; i < shards; ++i) {
    WriteTestFile(directory / fmt::format("part{}.safetensors", i), SafetensorsBytes(parts[i]));
  }
  WriteTestFile(directory / "model.safetensors.index.json",
                fmt::format("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", map));
  return directory;
}

std::vector<double> ReferenceVectors(const TinyNgram& model, const std::vector<uint32_t>& sequence,
                                     const std::set<uint32_t>& stops, ReferenceScale scale) {
  std::vector<double> vectors;
  for (size_t t = 0; t < sequence.size(); ++t) {
    std::vector<double> sum(model.hidden, 0.0);
    for (uint32_t i = 0; i < model.count(); ++i) {
      const uint32_t order = i / model.splits + 2;
      const uint64_t modulus = model.rows(i);
      uint64_t id = sequence[t] % modulus, power = 1;
      for (size_t s = 1; s < order && s <= t && stops.count(sequence[t - s]) == 0; ++s) {
        power = power * model.vocabulary % modulus;
        id = (id + sequence[t - s] * power) % modulus;
      }
      for (uint32_t h = 0; h < model.hidden; ++h) {
        for (uint32_t k = 0; k < model.width(); ++k) {
          sum[h] += double{model.projections[i][h * model.width() + k]} *
                    double{model.tables[i][id * model.width() + k]};
        }
      }
    }
    const double all = 1.0 + model.count();
    for (uint32_t h = 0; h < model.hidden; ++h) {
      const double e = model.word[sequence[t] * model.hidden + h];
      switch (scale) {
        case ReferenceScale::kAverage:
          vectors.push_back((e + sum[h]) / all);
          break;
        case ReferenceScale::kFixed:
          vectors.push_back((e + sum[h]) / std::sqrt(all));
          break;
        case ReferenceScale::kFull:
          vectors.push_back(e + sum[h] / all);
          break;
      }
    }
  }
  return vectors;
}

}  // namespace sprat
