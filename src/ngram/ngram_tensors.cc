#include "ngram/ngram_tensors.h"

#include <fmt/format.h>

#include <string_view>

namespace sprat {
namespace {

// A family of names; {} is the index of the table.
struct Names {
  const char* table;
  const char* projection;
};
constexpr Names kFamilies[] = {
    {"model.ngram_embeddings.embedders.{}.weight", "model.ngram_embeddings.post_projs.{}.weight"},
    {"model.oe_embed_tokens{}.weight", "model.oe_embed_proj{}.weight"},
};
constexpr std::string_view kWord{"model.embed_tokens.weight"};
constexpr std::string_view kPrefix{"model."};

// The tensor called `name`, or that without the prefix; `name` becomes what it is called.
const Tensor* Find(const TensorFile& file, std::string& name) {
  if (const Tensor* tensor = file.Find(name)) return tensor;
  const Tensor* tensor = file.Find(std::string_view(name).substr(kPrefix.size()));
  if (tensor != nullptr) name = name.substr(kPrefix.size());
  return tensor;
}

using Shape = std::vector<uint64_t>;

Result<const Tensor*> Require(const TensorFile& file, std::string& name, const Shape& shape) {
  const Tensor* tensor = Find(file, name);
  if (tensor == nullptr) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: there is no tensor {} [{}]", file.path().string(), name,
                             fmt::join(shape, ", ")));
  }
  if (tensor->shape != shape) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: {} is [{}], expected [{}] by the config", file.path().string(),
                             name, fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")));
  }
  return tensor;
}

// Word rows, projections and scales.
Result<void> RequireFloat(const TensorFile& file, const std::string& name, const Tensor& tensor) {
  if (tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kF32) {
    return {};
  }
  return Error(ErrorCode::kUnsupported,
               fmt::format("{}: {} is {}, supported are BF16, F16 and F32", file.path().string(),
                           name, Name(tensor.dtype)));
}

// The scales of an F8_E4M3 table; nullptr for other types of element.
Result<const Tensor*> FindScales(const TensorFile& file, const std::string& table_name,
                                 const Tensor& table) {
  if (table.dtype != DType::kF8E4M3) return nullptr;
  for (const char* suffix : {"_scale", "_scale_inv"}) {
    const Tensor* scales = file.Find(table_name + suffix);
    if (scales == nullptr) continue;
    Result<void> type = RequireFloat(file, table_name + suffix, *scales);
    if (!type.ok()) return std::move(type.error());
    const uint64_t count = scales->elements();
    if (count == 1 || count == table.shape[0]) return scales;
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: {}{} is [{}], expected 1 element or one for each of {} rows",
                             file.path().string(), table_name, suffix,
                             fmt::join(scales->shape, ", "), table.shape[0]));
  }
  return Error(ErrorCode::kCorrupt, fmt::format("{}: {} is F8_E4M3, but there is no {}_scale",
                                                file.path().string(), table_name, table_name));
}

// All tables of an encoding: G gathers of one form.
Result<void> CheckOneType(const NgramTensors& found) {
  for (size_t i = 1; i < found.tables.size(); ++i) {
    if (found.tables[i]->dtype == found.tables[0]->dtype) continue;
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: {} is {}, expected {} like {}", found.file->path().string(),
                             found.table_names[i], Name(found.tables[i]->dtype),
                             Name(found.tables[0]->dtype), found.table_names[0]));
  }
  return {};
}

}  // namespace

Result<NgramTensors> FindNgramTensors(const TensorFile& file, const NgramConfig& config,
                                      bool word_table) {
  NgramTensors found;
  found.file = &file;
  if (word_table) {
    std::string name(kWord);
    Result<const Tensor*> word = Require(file, name, {config.vocabulary, config.hidden});
    if (!word.ok()) return std::move(word.error());
    Result<void> type = RequireFloat(file, name, *word.value());
    if (!type.ok()) return std::move(type.error());
    found.word = word.value();
  }
  std::string newer = fmt::format(fmt::runtime(kFamilies[1].table), 0);
  const Names& names = kFamilies[Find(file, newer) != nullptr ? 1 : 0];
  for (uint32_t i = 0; i < config.tables(); ++i) {
    std::string table_name = fmt::format(fmt::runtime(names.table), i);
    Result<const Tensor*> table =
        Require(file, table_name, {config.stored_rows(i), config.width()});
    if (!table.ok()) return std::move(table.error());
    Result<const Tensor*> scales = FindScales(file, table_name, *table.value());
    if (!scales.ok()) return std::move(scales.error());
    std::string projection_name = fmt::format(fmt::runtime(names.projection), i);
    Result<const Tensor*> projection =
        Require(file, projection_name, {config.hidden, config.width()});
    if (!projection.ok()) return std::move(projection.error());
    Result<void> type = RequireFloat(file, projection_name, *projection.value());
    if (!type.ok()) return std::move(type.error());
    found.tables.push_back(table.value());
    found.scales.push_back(scales.value());
    found.projections.push_back(projection.value());
    found.table_names.push_back(std::move(table_name));
    found.projection_names.push_back(std::move(projection_name));
  }
  Result<void> one_type = CheckOneType(found);
  if (!one_type.ok()) return std::move(one_type.error());
  return found;
}

bool HasWordTable(const TensorFile& file) {
  std::string name(kWord);
  return Find(file, name) != nullptr;
}

}  // namespace sprat
