#include "gpu/ngram_weights.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "model/safetensors.h"
#include "ngram/number_formats.h"

namespace sprat::gpu {
namespace {

Result<void> Upload(void* to, const void* from, size_t size_bytes) {
  return gpu::Upload(to, from, size_bytes,
                     fmt::format("copying {} bytes to the device", size_bytes));
}

template <typename T>
Result<DeviceBuffer> Uploaded(const std::vector<T>& values) {
  Result<DeviceBuffer> buffer = AllocateDevice(values.size() * sizeof(T));
  if (!buffer.ok()) return buffer;
  Result<void> done = Upload(buffer.value().get(), values.data(), values.size() * sizeof(T));
  if (!done.ok()) return std::move(done.error());
  return buffer;
}

// Rows first .. first + count of a matrix, as bf16.
Result<std::vector<uint16_t>> RowsAsBf16(const Tensor& tensor, size_t first, size_t count) {
  const size_t columns = tensor.shape[1], row_bytes = columns * ElementBytes(tensor.dtype);
  const Tensor part{.dtype = tensor.dtype,
                    .shape = {count, columns},
                    .bytes = tensor.bytes.subspan(first * row_bytes, count * row_bytes)};
  std::vector<float> wide(count * columns);
  Result<void> done = CopyAsF32(part, wide);
  if (!done.ok()) return std::move(done.error());
  std::vector<uint16_t> rows(count * columns);
  std::transform(wide.begin(), wide.end(), rows.begin(), FloatToBf16);
  return rows;
}

// W_i [H, d] of all tables side by side.
Result<std::vector<uint16_t>> JoinProjections(const NgramPlan& plan, const NgramTensors& tensors) {
  std::vector<uint16_t> joined(size_t{plan.hidden} * plan.hidden);
  for (uint32_t i = 0; i < plan.tables; ++i) {
    Result<std::vector<uint16_t>> one = RowsAsBf16(*tensors.projections[i], 0, plan.hidden);
    if (!one.ok()) return std::move(one.error()).In(tensors.projection_names[i]);
    for (size_t n = 0; n < plan.hidden; ++n) {
      std::copy_n(one.value().begin() + n * plan.width, plan.width,
                  joined.begin() + n * plan.hidden + i * plan.width);
    }
  }
  return joined;
}

}  // namespace

Result<void> NgramWeights::AllocateTable(uint64_t rows, uint64_t scales) {
  rows_.emplace_back();
  scales_.emplace_back();
  if (rows > 0) {
    Result<DeviceBuffer> buffer = AllocateDevice(rows * plan_.width * (fp8_ ? 1 : 2));
    if (!buffer.ok()) return std::move(buffer.error());
    rows_.back() = std::move(buffer).value();
  }
  if (scales > 0) {
    Result<DeviceBuffer> buffer = AllocateDevice(scales * sizeof(float));
    if (!buffer.ok()) return std::move(buffer.error());
    scales_.back() = std::move(buffer).value();
  }
  return {};
}

Result<void> NgramWeights::LoadTable(const NgramConfig& config, uint32_t index,
                                     const RowTables::Rows& from) {
  const uint64_t rows = config.rows(index);
  const bool in_memory = from.rows != nullptr, scaled = from.row_scales != nullptr;
  Result<void> done = AllocateTable(in_memory ? rows : 0, scaled ? rows : 0);
  if (!done.ok()) return done;
  hashes_[index].scale = from.scale;
  if (in_memory) {
    done = Upload(rows_[index].get(), from.rows, rows * plan_.width * (fp8_ ? 1 : 2));
  }
  if (!done.ok() || !scaled) return done;
  return Upload(scales_[index].get(), from.row_scales, rows * sizeof(float));
}

Result<void> NgramWeights::LoadWord(const Tensor& word) {
  constexpr size_t kRowsAtOnce{4096};
  const size_t rows = word.shape[0], row_bytes = size_t{plan_.hidden} * 2;
  Result<DeviceBuffer> buffer = AllocateDevice(rows * row_bytes);
  if (!buffer.ok()) return std::move(buffer.error());
  word_ = std::move(buffer).value();
  for (size_t first = 0; first < rows; first += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, rows - first);
    Result<std::vector<uint16_t>> part = RowsAsBf16(word, first, count);
    if (!part.ok()) return std::move(part.error()).In("the word table");
    Result<void> done =
        Upload(word_.get() + first * row_bytes, part.value().data(), count * row_bytes);
    if (!done.ok()) return done;
  }
  return {};
}

Result<void> NgramWeights::SetEntries(const NgramConfig& config) {
  for (uint32_t i = 0; i < plan_.tables; ++i) {
    hashes_[i].rows = rows_[i].get();
    hashes_[i].scales = reinterpret_cast<const float*>(scales_[i].get());
  }
  const std::vector<TokenRange> stops = MakeStops(config);
  stop_ranges_ = static_cast<uint32_t>(stops.size());
  Result<DeviceBuffer> buffer = Uploaded(hashes_);
  if (!buffer.ok()) return std::move(buffer.error());
  entries_ = std::move(buffer).value();
  buffer = Uploaded(stops);
  if (!buffer.ok()) return std::move(buffer.error());
  stops_ = std::move(buffer).value();
  return {};
}

Result<void> NgramWeights::SetProjections(const std::vector<uint16_t>& weights) {
  Result<DeviceBuffer> buffer = Uploaded(PackFragments(plan_, weights));
  if (!buffer.ok()) return std::move(buffer.error());
  fragments_ = std::move(buffer).value();
  buffer = Uploaded(PackPanels(plan_, weights));
  if (!buffer.ok()) return std::move(buffer.error());
  panels_ = std::move(buffer).value();
  return {};
}

Result<NgramWeights> NgramWeights::Allocate(const NgramConfig& config, bool fp8, bool word) {
  Result<NgramPlan> plan = MakeNgramPlan(config);
  if (!plan.ok()) return std::move(plan.error());
  NgramWeights weights;
  weights.plan_ = plan.value();
  weights.fp8_ = fp8;
  weights.eos_ = config.eos;
  weights.hashes_ = MakeTableEntries(config);
  for (uint32_t i = 0; i < config.tables(); ++i) {
    Result<void> done = weights.AllocateTable(config.rows(i), fp8 ? config.rows(i) : 0);
    if (!done.ok()) return std::move(done.error());
  }
  if (word) {
    Result<DeviceBuffer> rows = AllocateDevice(size_t{config.vocabulary} * config.hidden * 2);
    if (!rows.ok()) return std::move(rows.error());
    weights.word_ = std::move(rows).value();
  }
  Result<void> done = weights.SetEntries(config);
  if (!done.ok()) return std::move(done.error());
  return weights;
}

Result<NgramWeights> NgramWeights::Load(const NgramConfig& config, const NgramTensors& tensors,
                                        const RowTables& tables) {
  Result<NgramPlan> plan = MakeNgramPlan(config);
  if (!plan.ok()) return std::move(plan.error());
  NgramWeights weights;
  weights.plan_ = plan.value();
  weights.fp8_ = tables.encoding() == RowEncoding::kE4m3;
  weights.eos_ = config.eos;
  weights.hashes_ = MakeTableEntries(config);
  for (uint32_t i = 0; i < config.tables(); ++i) {
    Result<void> done = weights.LoadTable(config, i, tables.RowsOf(i));
    if (!done.ok()) return std::move(done.error()).In(tensors.table_names[i]);
  }
  Result<void> done;
  if (tensors.word != nullptr) done = weights.LoadWord(*tensors.word);
  if (done.ok()) done = weights.SetEntries(config);
  if (!done.ok()) return std::move(done.error());
  Result<std::vector<uint16_t>> joined = JoinProjections(weights.plan_, tensors);
  if (!joined.ok()) return std::move(joined.error());
  done = weights.SetProjections(joined.value());
  if (!done.ok()) return std::move(done.error());
  return weights;
}

NgramModelView NgramWeights::View() const {
  return {.plan = plan_,
          .fp8 = fp8_,
          .entries = reinterpret_cast<const NgramTableEntry*>(entries_.get()),
          .stops = reinterpret_cast<const TokenRange*>(stops_.get()),
          .stop_ranges = stop_ranges_,
          .word = reinterpret_cast<const uint16_t*>(word_.get()),
          .fragments = reinterpret_cast<const uint16_t*>(fragments_.get()),
          .panels = reinterpret_cast<const uint16_t*>(panels_.get())};
}

}  // namespace sprat::gpu
