// Reading the tensors of a static model.
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "static_model/static_model.h"

namespace sprat {
namespace {

constexpr std::string_view kTableNames[] = {"embeddings", "embedding.weight", "0"};

const Tensor* FindTable(const TensorFile& file, std::string_view& name) {
  for (const std::string_view candidate : kTableNames) {
    if (const Tensor* table = file.Find(candidate)) {
      name = candidate;
      return table;
    }
  }
  return nullptr;
}

Error Corrupt(const TensorFile& file, std::string_view tensor, const std::string& fault) {
  return Error(ErrorCode::kCorrupt,
               file.path().string() + ": tensor '" + std::string(tensor) + "': " + fault);
}

std::string ShapeText(const Tensor& tensor) {
  std::string text = "[";
  for (const uint64_t extent : tensor.shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

// The elements of a tensor as To, read one by one: its bytes may be unaligned.
template <typename From, typename To>
std::vector<To> Convert(const Tensor& tensor) {
  std::vector<To> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    From value;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
    values[i] = static_cast<To>(value);
  }
  return values;
}

Result<std::vector<float>> ReadWeights(const TensorFile& file, const Tensor& tensor) {
  if (tensor.shape.size() != 1) {
    return Corrupt(file, "weights", "shape " + ShapeText(tensor) + ", expected one dimension");
  }
  if (tensor.dtype == DType::kF64) return Convert<double, float>(tensor);
  std::vector<float> weights(tensor.elements());
  Result<void> copied = CopyAsF32(tensor, weights);
  if (!copied.ok()) {
    return Corrupt(file, "weights",
                   "type " + std::string(Name(tensor.dtype)) + ", expected F64, F32 or F16");
  }
  return weights;
}

// A row number as stored: an I32 or I64 that may be out of range.
Result<std::vector<int64_t>> ReadMapping(const TensorFile& file, const Tensor& tensor) {
  if (tensor.shape.size() != 1) {
    return Corrupt(file, "mapping", "shape " + ShapeText(tensor) + ", expected one dimension");
  }
  if (tensor.dtype == DType::kI64) return Convert<int64_t, int64_t>(tensor);
  if (tensor.dtype == DType::kI32) return Convert<int32_t, int64_t>(tensor);
  return Corrupt(file, "mapping",
                 "type " + std::string(Name(tensor.dtype)) + ", expected I64 or I32");
}

Result<std::vector<uint32_t>> CheckedMapping(const TensorFile& file, const Tensor& tensor,
                                             size_t rows) {
  Result<std::vector<int64_t>> stored = ReadMapping(file, tensor);
  if (!stored.ok()) return std::move(stored.error());
  std::vector<uint32_t> mapping(stored.value().size());
  for (size_t id = 0; id < mapping.size(); ++id) {
    const int64_t row = stored.value()[id];
    if (row < 0 || static_cast<uint64_t>(row) >= rows) {
      return Corrupt(file, "mapping",
                     "id " + std::to_string(id) + " maps to row " + std::to_string(row) +
                         ", expected 0 to " + std::to_string(rows - 1));
    }
    mapping[id] = static_cast<uint32_t>(row);
  }
  return mapping;
}

}  // namespace

bool HoldsStaticTable(const TensorFile& file) {
  std::string_view name;
  return FindTable(file, name) != nullptr;
}

Result<StaticTables> ReadStaticTables(TensorFile file) {
  std::string_view name;
  const Tensor* embeddings = FindTable(file, name);
  if (embeddings == nullptr) {
    return Error(ErrorCode::kCorrupt,
                 file.path().string() + ": no tensor 'embeddings' (nor 'embedding.weight', '0')");
  }
  if (embeddings->shape.size() != 2 || embeddings->shape[0] == 0 || embeddings->shape[1] == 0 ||
      embeddings->shape[0] > 0xffffffffu) {
    return Corrupt(file, name, "shape " + ShapeText(*embeddings) + ", expected [rows, dimensions]");
  }
  if (embeddings->dtype != DType::kF32 && embeddings->dtype != DType::kF16 &&
      embeddings->dtype != DType::kI8) {
    return Corrupt(file, name,
                   "type " + std::string(Name(embeddings->dtype)) + ", expected F32, F16 or I8");
  }
  StaticTables tables;
  tables.embeddings = *embeddings;
  if (const Tensor* mapping = file.Find("mapping")) {
    Result<std::vector<uint32_t>> read = CheckedMapping(file, *mapping, tables.rows());
    if (!read.ok()) return std::move(read.error());
    tables.mapping = std::move(read).value();
  }
  if (const Tensor* weights = file.Find("weights")) {
    Result<std::vector<float>> read = ReadWeights(file, *weights);
    if (!read.ok()) return std::move(read.error());
    if (read.value().size() != tables.tokens()) {
      return Corrupt(file, "weights",
                     std::to_string(read.value().size()) + " values, expected one for each of " +
                         std::to_string(tables.tokens()) + " tokens");
    }
    tables.weights = std::move(read).value();
  }
  tables.file = std::move(file);
  return tables;
}

}  // namespace sprat
