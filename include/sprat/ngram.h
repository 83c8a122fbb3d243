// N-gram embeddings (LongCat-Flash-Lite and its successors, arXiv:2601.21204): the input layer of a
// language model that adds to each token's word row G projected rows of hashed n-gram tables, which
// may be in memory, in FP8, or left on an NVMe disk behind a row cache. Standard library only.
// docs/ngram.md has the formulas, the file format and how to size the cache.
#ifndef SPRAT_NGRAM_H_
#define SPRAT_NGRAM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sprat/result.h"

namespace sprat {

// How the word row E and the sum S of the G projected rows become one vector.
enum class NgramScale {
  kAverage,      // (E + S) / (1 + G)
  kFixedFactor,  // (E + S) / sqrt(1 + G)
  kFullWord,     // E + S / (1 + G)
};

// Where the rows of the n-gram tables are.
enum class NgramTables {
  kMapped,    // in the file, paged in by the system as they are touched
  kResident,  // copied to memory (huge pages) when the model is opened
  kFp8,       // in memory as E4M3 with one f32 scale a row, quantised when the model is opened
  kCached,    // in the file, read past the page cache into an arena of recently used rows
};

// "average", "fixed", "full"; "mapped", "resident", "fp8", "cached".
std::string_view Name(NgramScale scale);
std::string_view Name(NgramTables tables);
// Errors: kInvalidArgument listing the names.
Result<NgramScale> ParseNgramScale(std::string_view name);
Result<NgramTables> ParseNgramTables(std::string_view name);

// Whether `text` is what NgramOptions::ignored_tokens takes: half-open ranges of token ids such as
// "0:4,36:55", or "". Errors: kInvalidArgument naming the piece that is none.
Result<void> CheckTokenRanges(std::string_view text);

struct NgramOptions {
  NgramTables tables = NgramTables::kMapped;
  size_t threads = 0;                         // compute threads; 0: one for each available core
  std::optional<NgramScale> scale;            // default: what the model's config says
  std::optional<std::string> ignored_tokens;  // "0:4,36:55" in place of the config's; "": none
  bool word_table =
      true;  // false: the model's word rows, if any, are left; every call brings its own
  // kCached only:
  size_t cache_bytes = size_t{1} << 30;  // the arena, shared by all tables
  size_t queue_depth = 64;               // reads in flight for one batch
  bool io_uring = true;                  // false: a pool of threads that call pread
  // How long a batch waits for slots that other batches hold.
  std::chrono::milliseconds slot_wait{10000};
};

// A piece of one sequence: `tokens` are embedded, `context` are the tokens before them. Only the
// last N - 1 tokens of a context count; an empty one is the start of the sequence.
struct NgramPiece {
  std::span<const uint32_t> context;
  std::span<const uint32_t> tokens;
};

// What an opened model is.
struct NgramInfo {
  std::filesystem::path directory;
  size_t vocabulary = 0;  // V
  size_t hidden = 0;      // H: values of one vector
  size_t max_order = 0;   // N
  size_t splits = 0;      // K
  size_t tables = 0;      // G = K (N - 1)
  size_t width = 0;       // d = H / G: values of one table row
  uint64_t rows = 0;      // of all tables
  uint32_t eos = 0;
  NgramScale scale = NgramScale::kAverage;
  NgramTables form = NgramTables::kMapped;
  bool word_table = false;    // the files have word rows
  std::string table_dtype;    // as stored: "BF16", "F8_E4M3", ...
  size_t row_bytes = 0;       // of one table row in the form in use, its scale included
  uint64_t table_bytes = 0;   // of all table rows in the form in use
  size_t resident_bytes = 0;  // memory taken: packed projections, resident tables, the row cache
  size_t token_bytes = 0;     // table bytes that one token reads: G rows
  size_t cache_slots = 0;     // kCached: rows that fit the arena
  std::string reader;         // kCached: "io_uring" or "pread"
  std::string kernels;        // the chosen kernel table
  size_t threads = 0;
};

// What the row cache has done since the model was opened. All zero for the other forms.
struct NgramCounters {
  uint64_t hits = 0;        // distinct rows of a batch found in the arena
  uint64_t misses = 0;      // distinct rows of a batch that were not
  uint64_t evictions = 0;   // rows that made room for another
  uint64_t reads = 0;       // read requests sent to the disk
  uint64_t read_bytes = 0;  // bytes asked for by them
  uint64_t retries = 0;     // reads repeated after a short or interrupted one
  uint64_t failures = 0;    // batches undone by a failed read
  size_t queue_depth = 0;   // the most reads that were in flight at once
};

// A model's n-gram embedding, opened once. Any thread may call any method at any time. Movable.
class NgramEmbedding {
 public:
  // Opens `directory`: config.json and model.safetensors or its shards. Errors name the file, the
  // key or tensor, the value found and what was expected; kOutOfMemory, before anything is loaded,
  // if what it would take is more than there is, naming both.
  static Result<NgramEmbedding> Open(const std::filesystem::path& directory,
                                     const NgramOptions& options = {});

  // What Open would open and take, from config.json and the headers of the files alone: no table is
  // loaded, so it is as quick for tables that would not fit. Errors: those of Open but for those of
  // a table's content and kOutOfMemory.
  static Result<NgramInfo> Describe(const std::filesystem::path& directory,
                                    const NgramOptions& options = {});

  NgramEmbedding(NgramEmbedding&&) noexcept;
  NgramEmbedding& operator=(NgramEmbedding&&) noexcept;
  ~NgramEmbedding();

  // The table rows of each token: ids[t * G + i] is the row of table i for the t-th token of all
  // pieces laid end to end. ids.size() must be G times that number of tokens.
  // Errors: kInvalidArgument naming a token outside the vocabulary or a wrong size.
  Result<void> Ids(std::span<const NgramPiece> pieces, std::span<uint32_t> ids) const;

  // The vectors of `tokens` after `context`: out is tokens.size() x H, row-major.
  Result<void> Embed(std::span<const uint32_t> context, std::span<const uint32_t> tokens,
                     std::span<float> out) const;

  // The vectors of many sequences' pieces in one pass; row t is the t-th token of all pieces.
  //   word: empty, or the word rows E in the same order, T x H; required if the model was opened
  //     without a word table.
  // A token's vector depends on itself and the N - 1 tokens before it in its own sequence, to the
  // bit, however a sequence is cut into pieces and whatever else is in the batch.
  // Errors: kInvalidArgument (a token outside the vocabulary, a size), kIo (a table row that could
  // not be read), kOverloaded (the batch needs more cache slots than there are, or than others
  // leave in time). After an error `out` is meaningless and the model is usable.
  Result<void> EmbedBatch(std::span<const NgramPiece> pieces, std::span<const float> word,
                          std::span<float> out) const;

  // Reads the rows that these pieces will need into the cache, as far as there is room. Returns
  // when they are there. Nothing to do for the other table forms.
  Result<void> Prefetch(std::span<const NgramPiece> pieces) const;

  const NgramInfo& info() const;
  NgramCounters counters() const;

 private:
  class Impl;
  explicit NgramEmbedding(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sprat

#endif  // SPRAT_NGRAM_H_
