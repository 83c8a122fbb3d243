// The rows of all n-gram tables, wherever they are.
#ifndef SPRAT_NGRAM_ROW_TABLES_H_
#define SPRAT_NGRAM_ROW_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/memory_budget.h"
#include "base/thread_pool.h"
#include "ngram/ngram_config.h"
#include "ngram/ngram_kernels.h"
#include "ngram/ngram_tensors.h"
#include "ngram/row_cache.h"
#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat {

enum class RowEncoding {
  kBf16,  // d bf16
  kE4m3,  // d OCP E4M3, times the f32 scale of the row or of the table
};

// How the tables lie in memory in one of the forms of NgramTables, by their types and shapes alone.
struct RowLayout {
  NgramTables form = NgramTables::kMapped;  // kResident where mapping was asked for and cannot be
  RowEncoding encoding = RowEncoding::kBf16;
  size_t width = 0;             // d
  size_t row_bytes = 0;         // of a row's elements
  bool row_scales = false;      // kE4m3: an f32 a row (as table 0 has them)
  uint64_t cache_slots = 0;     // kCached
  uint64_t resident_bytes = 0;  // memory that they take once they are in use

  size_t row_bytes_with_scale() const { return row_bytes + (row_scales ? sizeof(float) : 0); }

  // Errors: kUnsupported naming table and type (any but BF16, F8_E4M3, F32 and F16; the last two
  // for kCached); kInvalidArgument if the arena holds fewer than one token's G rows.
  static Result<RowLayout> Of(const NgramConfig& config, const NgramTensors& tensors,
                              const NgramOptions& options);
};

// NgramOptions::queue_depth in the range that a queue takes, 1 to 4096.
size_t ReadQueueDepth(const NgramOptions& options);

// kOutOfMemory, naming the bytes needed and there, if tables in this layout take more memory than
// there is: of resident ones more than is available now; of a row cache, which takes it as rows
// come, more than there is at all.
Result<void> CheckMemory(const RowLayout& layout, const MemoryBudget& memory);

// The G tables in one of the forms of NgramTables. Every form of the same rows gathers the same
// bits, apart from the rounding that kFp8 adds.
// Threads: Resolve, Prefetch and Gather may be called from any thread at any time.
class RowTables {
 public:
  // Takes the tables of `tensors`, which must outlive this object unless the form copies.
  //   BF16 tables: as they are, or quantised with a scale a row for kFp8.
  //   F8_E4M3 tables with their scales: as they are in every form.
  //   F32 and F16 tables: rounded to BF16 in memory, so kMapped becomes kResident.
  // Errors: those of RowLayout::Of; kOutOfMemory, before anything is loaded as CheckMemory has it;
  // kIo; kCorrupt for a scale that is none.
  static Result<RowTables> Load(const NgramConfig& config, const NgramTensors& tensors,
                                const NgramOptions& options, ThreadPool& threads);

  // Makes sure that the rows of ids (T x G) are in memory and stay there as long as `pins`.
  // Nothing to do unless the form is kCached. Errors: as RowCache::Resolve.
  Result<void> Resolve(std::span<const uint32_t> ids, RowCache::Pins& pins) const;
  Result<void> Prefetch(std::span<const uint32_t> ids) const;

  // Row t of x becomes the concatenation of the rows ids[t * G + i], i = 0 .. G-1, as bf16.
  //   ids: T x G; pins: what Resolve gave for them, `first` being where they start in it.
  //   x: T rows of `stride` >= H elements.
  struct GatherTask {
    std::span<const uint32_t> ids;
    const RowCache::Pins* pins = nullptr;
    size_t first = 0;
    uint16_t* x = nullptr;
    size_t stride = 0;
  };
  void Gather(const GatherTask& task, const NgramKernels& kernels) const;

  // The rows of a table where they lie in memory. row i: at rows + i * width * bytes an element.
  struct Rows {
    const std::byte* rows = nullptr;    // nullptr if the table is cached
    const float* row_scales = nullptr;  // of kE4m3; nullptr: `scale` for all
    float scale = 1;
  };
  Rows RowsOf(uint32_t table) const {
    const Table& t = tables_[table];
    return {t.rows, t.row_scales, t.scale};
  }

  const RowLayout& layout() const { return layout_; }
  NgramTables form() const { return layout_.form; }
  RowEncoding encoding() const { return layout_.encoding; }
  size_t row_bytes() const { return layout_.row_bytes_with_scale(); }
  size_t resident_bytes() const { return layout_.resident_bytes; }
  const RowCache* cache() const { return cache_.get(); }
  // Tokens whose rows surely fit the arena together; without a cache, any number.
  size_t tokens_at_once() const;

 private:
  struct Table {
    const std::byte* rows = nullptr;  // row i at rows + i * row_bytes; nullptr if cached
    const float* row_scales = nullptr;
    float scale = 1;  // of all rows, if row_scales is nullptr
    Buffer<std::byte> owned_rows;
    Buffer<float> owned_scales;
  };

  Result<void> LoadTable(const NgramConfig& config, const NgramTensors& tensors, uint32_t index,
                         ThreadPool& threads);
  Result<void> LoadScales(const Tensor& scales, uint64_t rows, Table& table);
  Result<void> CopyRows(const NgramTensors& tensors, const Tensor& tensor, Table& table,
                        ThreadPool& threads);
  Result<void> OpenCache(const NgramTensors& tensors, const NgramOptions& options);
  const std::byte* Row(const GatherTask& task, size_t index) const;

  RowLayout layout_;
  std::vector<Table> tables_;
  std::unique_ptr<RowCache> cache_;
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_ROW_TABLES_H_
