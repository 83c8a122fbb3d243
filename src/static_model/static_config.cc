#include "static_model/static_config.h"

#include <algorithm>
#include <limits>

#include "model/json.h"

namespace sprat {
namespace {

// A whole number; null: no limit; absent: `absent`. (For JsonFields null is absent.)
Result<std::optional<size_t>> MaxLength(const JsonFields& fields, simdjson::dom::object object,
                                        std::optional<size_t> absent) {
  simdjson::dom::element value;
  if (object["max_length"].get(value) != simdjson::SUCCESS) return absent;
  if (value.is_null()) return std::optional<size_t>();
  Result<std::optional<uint64_t>> length =
      fields.Integer("max_length", {.least = 1, .most = std::numeric_limits<uint32_t>::max()});
  if (!length.ok()) return std::move(length.error());
  return std::optional<size_t>(*length.value());
}

}  // namespace

std::optional<StaticLayout> FindStaticLayout(const std::filesystem::path& directory) {
  const StaticLayout layouts[] = {
      {directory / "config.json", directory},
      {directory / "config_sentence_transformers.json", directory},
      {directory / "config_sentence_transformers.json", directory / "0_StaticEmbedding"}};
  for (const StaticLayout& layout : layouts) {
    std::error_code ignored;
    if (std::filesystem::exists(layout.config, ignored) &&
        std::filesystem::exists(layout.directory / "model.safetensors", ignored) &&
        std::filesystem::exists(layout.directory / "tokenizer.json", ignored)) {
      return layout;
    }
  }
  return std::nullopt;
}

Result<void> CheckStaticFiles(const std::filesystem::path& directory) {
  Result<JsonDocument> document = JsonDocument::Read(directory / "config.json");
  if (!document.ok()) return {};
  Result<simdjson::dom::object> object = document.value().Object();
  if (!object.ok()) return {};
  const JsonFields fields(document.value().origin(), object.value());
  const Result<std::optional<std::string>> type = fields.String("model_type");
  if (!type.ok() || type.value().value_or("model2vec") != "model2vec") return {};
  for (const char* name : {"model.safetensors", "tokenizer.json"}) {
    std::error_code ignored;
    if (std::filesystem::exists(directory / name, ignored)) continue;
    return Error(ErrorCode::kNotFound,
                 (directory / name).string() + ": no such file; a static model needs it");
  }
  return {};
}

Result<StaticConfig> ReadStaticConfig(const StaticLayout& layout) {
  Result<JsonDocument> document = JsonDocument::Read(layout.config);
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::object> object = document.value().Object();
  if (!object.ok()) return std::move(object.error());
  const JsonFields fields(document.value().origin(), object.value());

  StaticConfig config;
  Result<std::optional<bool>> normalize = fields.Bool("normalize");
  if (!normalize.ok()) return std::move(normalize.error());
  config.normalize = normalize.value().value_or(false);
  Result<std::optional<size_t>> max_length = MaxLength(fields, object.value(), config.max_length);
  if (!max_length.ok()) return std::move(max_length.error());
  config.max_length = max_length.value();
  return config;
}

Result<std::optional<bool>> ListsNormalize(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "modules.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::optional<bool>();
  Result<JsonDocument> document = JsonDocument::Read(path);
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::array> modules = document.value().Array();
  if (!modules.ok()) return std::move(modules.error());
  for (const simdjson::dom::element module : modules.value()) {
    std::string_view type;
    if (module["type"].get(type) == simdjson::SUCCESS && type.ends_with(".Normalize")) {
      return std::optional<bool>(true);
    }
  }
  return std::optional<bool>(false);
}

size_t MedianLength(std::vector<size_t>& lengths) {
  if (lengths.empty()) return 0;
  const auto middle = lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  if (lengths.size() % 2 == 1) return *middle;
  return (*std::max_element(lengths.begin(), middle) + *middle) / 2;
}

}  // namespace sprat
