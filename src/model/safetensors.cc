#include "model/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/narrow_floats.h"
#include "model/json.h"

namespace sprat {
namespace {

constexpr size_t kLengthBytes{8};               // the header's length, u64 little-endian
constexpr uint64_t kMaxHeaderBytes{100000000};  // as in the reference reader
constexpr uint64_t kSmallHeaderBytes{1 << 20};
constexpr size_t kMaxRank{8};

struct TypeName {
  DType dtype;
  size_t bytes;
  std::string_view name;
};
constexpr std::array kTypes{
    TypeName{DType::kBool, 1, "BOOL"},      TypeName{DType::kU8, 1, "U8"},
    TypeName{DType::kI8, 1, "I8"},          TypeName{DType::kI16, 2, "I16"},
    TypeName{DType::kU16, 2, "U16"},        TypeName{DType::kF16, 2, "F16"},
    TypeName{DType::kBF16, 2, "BF16"},      TypeName{DType::kI32, 4, "I32"},
    TypeName{DType::kU32, 4, "U32"},        TypeName{DType::kF32, 4, "F32"},
    TypeName{DType::kF64, 8, "F64"},        TypeName{DType::kI64, 8, "I64"},
    TypeName{DType::kU64, 8, "U64"},        TypeName{DType::kF8E4M3, 1, "F8_E4M3"},
    TypeName{DType::kF8E5M2, 1, "F8_E5M2"},
};

const TypeName& Row(DType dtype) {
  for (const TypeName& row : kTypes) {
    if (row.dtype == dtype) return row;
  }
  CHECK(false && "a DType without a row in kTypes");
  return kTypes[0];
}

// What a file that is not safetensors looks like; "" if it does not look like anything known.
std::string_view LooksLike(std::span<const std::byte> bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 256));
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    return "a Git LFS pointer (the file itself was never fetched: run `git lfs pull`)";
  }
  const size_t first = start.find_first_not_of(" \t\r\n");
  if (first != start.npos) {
    std::string text(start.substr(first, 14));
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (text.starts_with("<!doctype html") || text.starts_with("<html") ||
        text.starts_with("<?xml")) {
      return "a web page (the download failed)";
    }
  }
  if (start.starts_with("PK\x03\x04")) return "a zip archive (a PyTorch checkpoint?)";
  if (start.starts_with("GGUF")) return "a GGUF file";
  return "";
}

// The size of the header of a file of `bytes`, checked before anything else is read.
Result<uint64_t> HeaderBytes(const std::string& file, std::span<const std::byte> bytes) {
  const auto corrupt = [&](std::string fault) {
    const std::string_view like = LooksLike(bytes);
    if (!like.empty()) fault = fmt::format("looks like {}, not safetensors", like);
    return Error(ErrorCode::kCorrupt, fmt::format("{}: {}", file, fault));
  };
  if (bytes.size() < kLengthBytes) {
    return corrupt(
        fmt::format("the file is {} bytes, expected at least 8 for the header's "
                    "length",
                    bytes.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const uint64_t rest = bytes.size() - kLengthBytes;
  if (length > rest) {
    return corrupt(
        fmt::format("the file is {} bytes, but its header alone says {} more than the "
                    "first 8: cut off, or not safetensors",
                    bytes.size(), length));
  }
  if (length < 2 || bytes[kLengthBytes] != std::byte{'{'}) {
    return corrupt(
        fmt::format("the header is {} bytes and does not start with '{{': not "
                    "safetensors",
                    length));
  }
  if (length > kMaxHeaderBytes) {
    return corrupt(
        fmt::format("the header is {} bytes, expected at most {}", length, kMaxHeaderBytes));
  }
  // Parsing takes up to kParseBytesPerByte times the header: no header makes that exceed the file.
  if (length > kSmallHeaderBytes && length > bytes.size() / JsonDocument::kParseBytesPerByte) {
    return corrupt(
        fmt::format("the header is {} bytes of a file of {}, expected at most 1/{} of "
                    "the file",
                    length, bytes.size(), JsonDocument::kParseBytesPerByte));
  }
  return length;
}

// The header entry of one tensor, not yet compared with the others.
struct Entry {
  Tensor tensor;
  uint64_t begin = 0;  // from the end of the header
  uint64_t end = 0;
};

// Reads `values` as at most `limit` whole numbers.
std::optional<std::vector<uint64_t>> WholeNumbers(simdjson::dom::element values, size_t limit) {
  simdjson::dom::array array;
  if (values.get(array) != simdjson::SUCCESS || array.size() > limit) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const simdjson::dom::element value : array) {
    uint64_t number = 0;
    if (value.get(number) != simdjson::SUCCESS) return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

// a * b, or nullopt if it does not fit.
std::optional<uint64_t> Times(uint64_t a, uint64_t b) {
  if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) return std::nullopt;
  return a * b;
}

Result<Entry> ReadEntry(const std::string& place, simdjson::dom::element value) {
  const auto corrupt = [&](std::string_view fault) {
    return Error(ErrorCode::kCorrupt, fmt::format("{}: {}", place, fault));
  };
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return corrupt(fmt::format("expected an object, got {}", Shown(value)));
  }
  const JsonFields fields(place, object);
  Result<std::optional<std::string>> dtype = fields.String("dtype");
  if (!dtype.ok()) return std::move(dtype.error());
  if (!dtype.value()) return fields.Missing("dtype", "a string");
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeName& type) { return type.name == *dtype.value(); });
  if (row == kTypes.end()) {
    return fields.Unsupported("dtype", *dtype.value(), "F32, F16, BF16, F64, integers, F8");
  }
  Entry entry;
  entry.tensor.dtype = row->dtype;
  const auto shape = fields.Find("shape");
  if (!shape) return fields.Missing("shape", "an array");
  const auto dimensions = WholeNumbers(*shape, kMaxRank);
  if (!dimensions) return fields.Wrong("shape", "at most 8 whole numbers", *shape);
  entry.tensor.shape = *dimensions;
  const auto offsets = fields.Find("data_offsets");
  if (!offsets) return fields.Missing("data_offsets", "[begin, end]");
  const auto range = WholeNumbers(*offsets, 2);
  if (!range || range->size() != 2 || (*range)[0] > (*range)[1]) {
    return fields.Wrong("data_offsets", "[begin, end] with begin <= end", *offsets);
  }
  entry.begin = (*range)[0];
  entry.end = (*range)[1];
  std::optional<uint64_t> size = row->bytes;
  for (const uint64_t dimension : *dimensions) size = size ? Times(*size, dimension) : size;
  if (!size || *size != entry.end - entry.begin) {
    return corrupt(fmt::format("{} of shape {} does not fill the {} bytes of data_offsets {}",
                               row->name, Shown(*shape), entry.end - entry.begin, Shown(*offsets)));
  }
  return entry;
}

using Entries = std::map<std::string, Entry, std::less<>>;

Result<Entries> ReadEntries(const std::string& file, std::span<const std::byte> header) {
  Result<JsonDocument> document = JsonDocument::Parse(file + ": header", header);
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::object> root = document.value().Object();
  if (!root.ok()) return std::move(root.error());
  Entries entries;
  for (const simdjson::dom::key_value_pair field : root.value()) {
    if (field.key == "__metadata__") {
      if (!field.value.is_object()) {
        return Error(
            ErrorCode::kCorrupt,
            fmt::format("{}: __metadata__: expected an object, got {}", file, Shown(field.value)));
      }
      continue;
    }
    Result<Entry> entry = ReadEntry(fmt::format("{}: tensor \"{}\"", file, field.key), field.value);
    if (!entry.ok()) return std::move(entry.error());
    entries.emplace(field.key, std::move(entry).value());
  }
  return entries;
}

// Checks that the entries tile `data` from end to end, and points each tensor at its part.
Result<void> PlaceTensors(const std::string& file, std::span<const std::byte> data,
                          size_t header_end, Entries& entries) {
  std::vector<std::pair<std::string_view, Entry*>> ordered;
  for (auto& [name, entry] : entries) ordered.emplace_back(name, &entry);
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t position = 0;
  for (const auto& [name, entry] : ordered) {
    if (entry->begin != position) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{}: tensor \"{}\": data_offsets begin at {}, expected {}: {}", file,
                               name, entry->begin, position,
                               entry->begin < position ? "it overlaps another tensor"
                                                       : "there is a hole before it"));
    }
    position = entry->end;
  }
  if (position != data.size()) {
    const bool cut = position > data.size();
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: the file is {} bytes, but its header says {}: {}", file,
                             header_end + data.size(), header_end + position,
                             cut ? "cut off (an interrupted download?)" : "something follows it"));
  }
  for (const auto& [name, entry] : ordered) {
    entry->tensor.bytes = data.subspan(entry->begin, entry->end - entry->begin);
  }
  return {};
}

Result<Entries> ReadFileEntries(const MappedFile& mapped) {
  const std::string file = mapped.path().string();
  const std::span<const std::byte> bytes = mapped.bytes();
  Result<uint64_t> length = HeaderBytes(file, bytes);
  if (!length.ok()) return std::move(length.error());
  const size_t header_end = kLengthBytes + length.value();
  Result<Entries> entries = ReadEntries(file, bytes.subspan(kLengthBytes, length.value()));
  if (!entries.ok()) return entries;
  Result<void> placed = PlaceTensors(file, bytes.subspan(header_end), header_end, entries.value());
  if (!placed.ok()) return std::move(placed.error());
  return entries;
}

// A name that cannot lead out of its directory.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// Which shard each tensor is in, from model.safetensors.index.json: shard -> tensor names.
using WeightMap = std::map<std::string, std::vector<std::string>, std::less<>>;

Result<WeightMap> ReadWeightMap(const std::filesystem::path& index) {
  Result<JsonDocument> document = JsonDocument::Read(index);
  if (!document.ok()) return std::move(document.error());
  Result<simdjson::dom::object> root = document.value().Object();
  if (!root.ok()) return std::move(root.error());
  const JsonFields fields(index.string(), root.value());
  const auto weight_map = fields.Find("weight_map");
  if (!weight_map) return fields.Missing("weight_map", "an object");
  if (!weight_map->is_object()) return fields.Wrong("weight_map", "an object", *weight_map);
  WeightMap shards;
  for (const simdjson::dom::key_value_pair field : simdjson::dom::object(*weight_map)) {
    const std::string key = fmt::format("weight_map[\"{}\"]", field.key);
    if (!field.value.is_string()) return fields.Wrong(key, "a file name", field.value);
    const std::string_view shard(field.value);
    if (!IsPlainFileName(shard)) {
      return fields.Wrong(key, "the name of a file beside the index", field.value);
    }
    shards[std::string(shard)].emplace_back(field.key);
  }
  return shards;
}

}  // namespace

size_t ElementBytes(DType dtype) { return Row(dtype).bytes; }
std::string_view Name(DType dtype) { return Row(dtype).name; }

uint64_t Tensor::elements() const { return bytes.size() / ElementBytes(dtype); }

Result<TensorFile> TensorFile::OpenFile(const std::filesystem::path& file) {
  Result<MappedFile> mapped = MappedFile::Open(file);
  if (!mapped.ok()) return std::move(mapped.error());
  Result<Entries> entries = ReadFileEntries(mapped.value());
  if (!entries.ok()) return std::move(entries.error());
  TensorFile opened;
  opened.path_ = file;
  for (auto& [name, entry] : entries.value()) {
    opened.tensors_.emplace(name, std::move(entry.tensor));
  }
  opened.files_.push_back(std::move(mapped).value());
  return opened;
}

Result<TensorFile> TensorFile::OpenShards(const std::filesystem::path& index) {
  Result<WeightMap> shards = ReadWeightMap(index);
  if (!shards.ok()) return std::move(shards.error());
  TensorFile opened;
  opened.path_ = index;
  for (const auto& [shard, names] : shards.value()) {
    Result<TensorFile> file = OpenFile(index.parent_path() / shard);
    if (!file.ok()) return std::move(file.error()).In(index.string());
    for (const std::string& name : names) {
      const Tensor* tensor = file.value().Find(name);
      if (tensor == nullptr) {
        return Error(ErrorCode::kCorrupt,
                     fmt::format("{}: tensor \"{}\" is not in {}, where weight_map puts it",
                                 index.string(), name, shard));
      }
      opened.tensors_.emplace(name, *tensor);
    }
    opened.files_.push_back(std::move(file.value().files_.front()));
  }
  return opened;
}

Result<TensorFile> TensorFile::OpenDirectory(const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::filesystem::path single = directory / "model.safetensors";
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  if (!std::filesystem::exists(single, ignored) && std::filesystem::exists(index, ignored)) {
    return OpenShards(index);
  }
  Result<TensorFile> file = OpenFile(single);
  if (!file.ok() && file.error().code() == ErrorCode::kNotFound &&
      std::filesystem::exists(directory / "pytorch_model.bin", ignored)) {
    return Error(ErrorCode::kNotFound,
                 single.string() +
                     ": no such file; pytorch_model.bin is there, but only safetensors is read");
  }
  return file;
}

const Tensor* TensorFile::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const MappedFile* TensorFile::FileOf(const Tensor& tensor) const {
  for (const MappedFile& file : files_) {
    const std::byte* begin = file.bytes().data();
    if (tensor.bytes.data() >= begin && tensor.bytes.data() <= begin + file.bytes().size()) {
      return &file;
    }
  }
  return nullptr;
}

TensorFile::Place TensorFile::Locate(const Tensor& tensor) const {
  const MappedFile* file = FileOf(tensor);
  CHECK(file != nullptr);
  return {file->path(), static_cast<uint64_t>(tensor.bytes.data() - file->bytes().data())};
}

void TensorFile::Release(const Tensor& tensor) const {
  const MappedFile* file = FileOf(tensor);
  if (file != nullptr) file->Release(tensor.bytes);
}

namespace {

template <typename Convert>
void CopyFrom16(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    out[i] = convert(bits);
  }
}

}  // namespace

Result<void> CopyAsF32(const Tensor& tensor, std::span<float> out) {
  CHECK(out.size() == tensor.elements());
  switch (tensor.dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
      return {};
    case DType::kF16:
      CopyFrom16(tensor.bytes, out, HalfToFloat);
      return {};
    case DType::kBF16:
      CopyFrom16(tensor.bytes, out, Bf16ToFloat);
      return {};
    default:
      return Error(ErrorCode::kUnsupported,
                   fmt::format("dtype {} is not supported for weights; supported: F32, F16, BF16",
                               Name(tensor.dtype)));
  }
}

}  // namespace sprat
