#include "ngram/row_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "ngram/number_formats.h"

namespace sprat {
namespace {

// How many rows ahead a gather fetches from memory.
constexpr size_t kPrefetchRows{16};
constexpr size_t kCacheLineBytes{64};
// Rows that one thread converts at a time.
constexpr size_t kRowsAPart{1 << 16};

// Below this the scale would be a subnormal f32, which the arithmetic takes for 0: such a row
// counts as zeros.
constexpr float kSmallestRow{kLargestE4m3 * 0x1p-126f};

// Types of element that are rounded to bf16.
bool IsWide(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16; }

// One row of d bf16 to E4M3 with the scale max|row| / 448, or 1 for a row of zeros.
float QuantizeRow(const std::byte* row, size_t width, std::byte* codes) {
  float largest = 0;
  for (size_t k = 0; k < width; ++k) {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * k, sizeof bits);
    largest = std::max(largest, std::abs(Bf16ToFloat(bits)));
  }
  const float scale = largest >= kSmallestRow ? largest / kLargestE4m3 : 1.0f;
  for (size_t k = 0; k < width; ++k) {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * k, sizeof bits);
    codes[k] = static_cast<std::byte>(FloatToE4m3(Bf16ToFloat(bits) / scale));
  }
  return scale;
}

// A scale of 0 would make a row of zeros, a negative one its opposite, NaN and infinity themselves.
Result<void> CheckScales(std::span<const float> scales) {
  const auto wrong = std::find_if_not(
      scales.begin(), scales.end(), [](float scale) { return scale > 0 && std::isfinite(scale); });
  if (wrong == scales.end()) return {};
  return Error(ErrorCode::kCorrupt, fmt::format("scale {} is {}, expected a positive number",
                                                wrong - scales.begin(), *wrong));
}

// The elements of `count` rows of a float tensor from `first` on, as bf16.
Result<void> RoundRows(const Tensor& tensor, size_t first, size_t count, std::byte* out) {
  const size_t width = tensor.shape[1], row_bytes = width * ElementBytes(tensor.dtype);
  Tensor part = tensor;
  part.shape[0] = count;
  part.bytes = tensor.bytes.subspan(first * row_bytes, count * row_bytes);
  std::vector<float> values(count * width);
  Result<void> copied = CopyAsF32(part, values);
  if (!copied.ok()) return copied;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = FloatToBf16(values[i]);
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
  return {};
}

}  // namespace

Result<RowLayout> RowLayout::Of(const NgramConfig& config, const NgramTensors& tensors,
                                const NgramOptions& options) {
  RowLayout layout{.form = options.tables, .width = config.width()};
  const DType dtype = tensors.tables[0]->dtype;
  if (!IsWide(dtype) && dtype != DType::kBF16 && dtype != DType::kF8E4M3) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{} is {}, supported are BF16, F8_E4M3, F32 and F16",
                             tensors.table_names[0], Name(dtype)));
  }
  if (IsWide(dtype) && options.tables == NgramTables::kCached) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{} is {}, which is not supported for cached tables: they are read as "
                             "they are stored, in BF16 or F8_E4M3",
                             tensors.table_names[0], Name(dtype)));
  }
  if (IsWide(dtype) && layout.form == NgramTables::kMapped) layout.form = NgramTables::kResident;
  const bool quantize = layout.form == NgramTables::kFp8 && dtype != DType::kF8E4M3;
  if (dtype == DType::kF8E4M3 || quantize) layout.encoding = RowEncoding::kE4m3;
  layout.row_bytes = layout.width * (layout.encoding == RowEncoding::kE4m3 ? 1 : 2);
  const auto has_row_scales = [&](uint32_t i) {
    return quantize || (tensors.scales[i] != nullptr && tensors.scales[i]->elements() > 1);
  };
  layout.row_scales = has_row_scales(0);
  const bool in_memory = layout.form == NgramTables::kResident || layout.form == NgramTables::kFp8;
  uint64_t rows = 0;
  for (uint32_t i = 0; i < config.tables(); ++i) {
    rows += config.stored_rows(i);
    if (in_memory) layout.resident_bytes += config.stored_rows(i) * layout.row_bytes;
    if (has_row_scales(i)) layout.resident_bytes += config.stored_rows(i) * sizeof(float);
  }
  if (layout.form != NgramTables::kCached) return layout;
  // More slots than the model has rows would stay empty.
  const uint64_t slots = options.cache_bytes / RowCache::SlotBytes(layout.row_bytes);
  layout.cache_slots = std::min({slots, rows, uint64_t{UINT32_MAX - 1}});
  if (layout.cache_slots < config.tables()) {
    return Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a row cache of {} bytes holds {} rows of {}, expected at least the {} "
                    "of one token",
                    options.cache_bytes, layout.cache_slots, layout.row_bytes, config.tables()));
  }
  layout.resident_bytes += RowCache::SizeBytes(layout.cache_slots, layout.row_bytes);
  return layout;
}

size_t ReadQueueDepth(const NgramOptions& options) {
  return std::clamp<size_t>(options.queue_depth, 1, 4096);
}

Result<void> CheckMemory(const RowLayout& layout, const MemoryBudget& memory) {
  if (layout.form == NgramTables::kMapped) return {};
  const bool cached = layout.form == NgramTables::kCached;
  const uint64_t there = cached ? memory.total_bytes : memory.available_bytes;
  if (layout.resident_bytes <= there) return {};
  if (cached) {
    return Error(ErrorCode::kOutOfMemory,
                 fmt::format("a row cache of {} slots takes {} bytes with its map and the tables' "
                             "scales, more than the {} bytes of memory: choose a smaller one",
                             layout.cache_slots, layout.resident_bytes, there));
  }
  return Error(ErrorCode::kOutOfMemory,
               fmt::format("{} tables take {} bytes of memory, and {} are available; mapped or "
                           "cached tables stay in the file",
                           Name(layout.form), layout.resident_bytes, there));
}

Result<RowTables> RowTables::Load(const NgramConfig& config, const NgramTensors& tensors,
                                  const NgramOptions& options, ThreadPool& threads) {
  Result<RowLayout> layout = RowLayout::Of(config, tensors, options);
  if (!layout.ok()) return std::move(layout.error());
  Result<void> fits = CheckMemory(layout.value(), ReadMemoryBudget());
  if (!fits.ok()) return std::move(fits.error());
  RowTables tables;
  tables.layout_ = layout.value();
  for (uint32_t i = 0; i < config.tables(); ++i) {
    Result<void> loaded = tables.LoadTable(config, tensors, i, threads);
    if (!loaded.ok()) return std::move(loaded.error()).In(tensors.table_names[i]);
  }
  if (tables.form() == NgramTables::kCached) {
    Result<void> opened = tables.OpenCache(tensors, options);
    if (!opened.ok()) return std::move(opened.error());
  }
  return tables;
}

Result<void> RowTables::LoadTable(const NgramConfig& config, const NgramTensors& tensors,
                                  uint32_t index, ThreadPool& threads) {
  Table& table = tables_.emplace_back();
  const Tensor& tensor = *tensors.tables[index];
  if (tensors.scales[index] != nullptr) {
    Result<void> scales = LoadScales(*tensors.scales[index], config.stored_rows(index), table);
    if (!scales.ok()) return std::move(scales.error()).In(fmt::format("scales of table {}", index));
  }
  if (layout_.form == NgramTables::kCached) return {};
  if (layout_.form == NgramTables::kMapped) {
    table.rows = tensor.bytes.data();
    return {};
  }
  return CopyRows(tensors, tensor, table, threads);
}

Result<void> RowTables::LoadScales(const Tensor& scales, uint64_t rows, Table& table) {
  if (scales.elements() == 1) {
    Result<void> copied = CopyAsF32(scales, {&table.scale, 1});
    return copied.ok() ? CheckScales({&table.scale, 1}) : copied;
  }
  Result<Buffer<float>> owned = Buffer<float>::Allocate(rows);
  if (!owned.ok()) return std::move(owned.error());
  table.owned_scales = std::move(owned).value();
  table.row_scales = table.owned_scales.begin();
  Result<void> copied = CopyAsF32(scales, table.owned_scales.span());
  return copied.ok() ? CheckScales(table.owned_scales.span()) : copied;
}

// Fills owned_rows from the file: as they are, rounded to bf16, or quantised from bf16.
Result<void> RowTables::CopyRows(const NgramTensors& tensors, const Tensor& tensor, Table& table,
                                 ThreadPool& threads) {
  const size_t rows = tensor.shape[0];
  Result<Buffer<std::byte>> owned = Buffer<std::byte>::Allocate(rows * layout_.row_bytes);
  if (!owned.ok()) return std::move(owned.error());
  table.owned_rows = std::move(owned).value();
  table.rows = table.owned_rows.begin();
  const bool quantize = layout_.encoding == RowEncoding::kE4m3 && tensor.dtype != DType::kF8E4M3;
  if (quantize) {
    Result<Buffer<float>> scales = Buffer<float>::Allocate(rows);
    if (!scales.ok()) return std::move(scales.error());
    table.owned_scales = std::move(scales).value();
    table.row_scales = table.owned_scales.begin();
  }
  const bool wide = IsWide(tensor.dtype);
  // A part: rows first .. first + count, which only this thread writes.
  const auto convert = [&](size_t first, size_t count) {
    std::byte* out = table.owned_rows.begin() + first * layout_.row_bytes;
    const std::byte* in = tensor.bytes.data() + first * layout_.width * ElementBytes(tensor.dtype);
    std::vector<std::byte> rounded;
    if (wide) {
      rounded.resize(count * layout_.width * 2);
      CHECK(RoundRows(tensor, first, count, rounded.data()).ok());  // its type was checked
      in = rounded.data();
    }
    if (!quantize) {
      std::memcpy(out, in, count * layout_.row_bytes);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      table.owned_scales[first + i] =
          QuantizeRow(in + i * layout_.width * 2, layout_.width, out + i * layout_.row_bytes);
    }
  };
  threads.Run([&](size_t rank, Team& team) {
    const Share share = ShareOf(rows, rank, team.size());
    for (size_t first = share.begin; first < share.end; first += kRowsAPart) {
      convert(first, std::min(kRowsAPart, share.end - first));
    }
  });
  tensors.file->Release(tensor);
  return {};
}

Result<void> RowTables::OpenCache(const NgramTensors& tensors, const NgramOptions& options) {
  std::vector<std::filesystem::path> files;
  std::vector<RowPlace> places;
  for (const Tensor* tensor : tensors.tables) {
    const TensorFile::Place place = tensors.file->Locate(*tensor);
    auto file = std::find(files.begin(), files.end(), place.file);
    if (file == files.end()) file = files.insert(file, place.file);
    places.push_back({static_cast<uint32_t>(file - files.begin()), place.offset});
  }
  Result<std::unique_ptr<RowReader>> reader =
      RowReader::Open(files, {.row_bytes = layout_.row_bytes,
                              .queue_depth = ReadQueueDepth(options),
                              .io_uring = options.io_uring});
  if (!reader.ok()) return std::move(reader.error());
  Result<std::unique_ptr<RowCache>> cache =
      RowCache::Create({.slots = layout_.cache_slots,
                        .row_bytes = layout_.row_bytes,
                        .slot_wait = options.slot_wait},
                       std::move(places), std::move(reader).value());
  if (!cache.ok()) return std::move(cache.error());
  cache_ = std::move(cache).value();
  return {};
}

size_t RowTables::tokens_at_once() const {
  return cache_ == nullptr ? SIZE_MAX : cache_->slots() / tables_.size();
}

Result<void> RowTables::Resolve(std::span<const uint32_t> ids, RowCache::Pins& pins) const {
  if (cache_ == nullptr) return {};
  std::vector<RowKey>& keys = pins.keys();
  keys.clear();
  for (size_t j = 0; j < ids.size(); ++j) {
    keys.push_back(MakeRowKey(static_cast<uint32_t>(j % tables_.size()), ids[j]));
  }
  return cache_->Resolve(keys, pins);
}

Result<void> RowTables::Prefetch(std::span<const uint32_t> ids) const {
  if (cache_ == nullptr) return {};
  std::vector<RowKey> keys;
  for (size_t j = 0; j < ids.size(); ++j) {
    keys.push_back(MakeRowKey(static_cast<uint32_t>(j % tables_.size()), ids[j]));
  }
  return cache_->Prefetch(keys);
}

// The stored row of ids[index].
const std::byte* RowTables::Row(const GatherTask& task, size_t index) const {
  if (cache_ != nullptr) return cache_->Row(task.pins->slots()[task.first + index]);
  return tables_[index % tables_.size()].rows + task.ids[index] * layout_.row_bytes;
}

void RowTables::Gather(const GatherTask& task, const NgramKernels& kernels) const {
  const size_t tables = tables_.size();
  for (size_t j = 0; j < task.ids.size(); ++j) {
    if (j + kPrefetchRows < task.ids.size()) {
      const std::byte* ahead = Row(task, j + kPrefetchRows);
      for (size_t byte = 0; byte < layout_.row_bytes; byte += kCacheLineBytes) {
        __builtin_prefetch(ahead + byte);
      }
    }
    const size_t t = j / tables, i = j % tables;
    uint16_t* out = task.x + t * task.stride + i * layout_.width;
    const std::byte* row = Row(task, j);
    if (layout_.encoding == RowEncoding::kBf16) {
      std::memcpy(out, row, layout_.row_bytes);
      continue;
    }
    const Table& table = tables_[i];
    const float scale = table.row_scales != nullptr ? table.row_scales[task.ids[j]] : table.scale;
    kernels.decode_e4m3(reinterpret_cast<const uint8_t*>(row), scale, layout_.width, out);
  }
}

}  // namespace sprat
