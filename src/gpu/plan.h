// Who computes what, from which bytes, in which order, on a GPU: as data. The host packs weights
// and launches by it, the kernels index by it, the CPU twin of the tests computes by it; no other
// place knows these numbers. Plain C++: the same header for host, device and tests.
#ifndef SPRAT_GPU_PLAN_H_
#define SPRAT_GPU_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config.h"
#include "sprat/result.h"

namespace sprat::gpu {

// What the kernels are compiled for: the 384-wide BERT family (all-MiniLM-L6/L12, bge-small,
// e5-small, gte-small). Layers, vocabulary and positions are a model's own.
inline constexpr uint32_t kHidden{384};             // H
inline constexpr uint32_t kHeads{12};               // A
inline constexpr uint32_t kHead{kHidden / kHeads};  // D
inline constexpr uint32_t kFfn{1536};               // F
inline constexpr uint32_t kPositions{512};          // the longest sequence

// --- Operands ------------------------------------------------------------------------------------
// A matrix that a tensor core reads, weights and activations alike, lies in *panels*: 64 columns of
// f16 (128 bytes) a row, all rows of a panel one after the other, panel after panel. Inside a row
// the eight 16-byte chunks are permuted by the row's number, so that eight rows of one column read
// from shared memory touch all 32 banks. It is the layout that wgmma calls K-major with a 128-byte
// swizzle, hence a tile of rows x 64 is one contiguous piece of memory: a bulk copy needs no
// descriptor. A tile must start at a row that is a multiple of 8.
inline constexpr uint32_t kPanel{64};

// Where element (row, column) of a matrix of `rows` rows lies, in elements.
constexpr size_t PanelOffset(size_t row, size_t column, size_t rows) {
  const size_t chunk = (column % kPanel / 8) ^ (row % 8);
  return (column / kPanel * rows + row) * kPanel + chunk * 8 + column % 8;
}

// The four matrices of a layer, in the order of execution. y = x . W^T + b with W (rows, columns).
enum class Matrix : uint8_t { kQkv, kOut, kUp, kDown };
inline constexpr Matrix kMatrices[] = {Matrix::kQkv, Matrix::kOut, Matrix::kUp, Matrix::kDown};

constexpr uint32_t Rows(Matrix matrix) {
  return matrix == Matrix::kQkv ? 3 * kHidden : matrix == Matrix::kUp ? kFfn : kHidden;
}
constexpr uint32_t Columns(Matrix matrix) { return matrix == Matrix::kDown ? kFfn : kHidden; }

// The residual stream lies as the accumulators of mma tiles do: a tile of 16 rows x 8 columns is 32
// lanes of 4 f32, lane 4g + q having columns 2q and 2q + 1 of row g, then of row g + 8. So a
// product starts its sums from it, and leaves its result in it, 16 bytes a lane.
constexpr size_t StateOffset(size_t row, size_t column) {
  const size_t lane = row % 8 * 4 + column % 8 / 2;
  return ((row / 16 * (kHidden / 8) + column / 8) * 32 + lane) * 4 + row % 16 / 8 * 2 + column % 2;
}

// The order of additions of every product: the bias and, where there is one, the residual first;
// then columns in steps of 16 from the left, one mma instruction a step, into one f32 accumulator.
// mma.sync and wgmma give the same bits for it (the GPU tests compare them), whatever the shape of
// the tile; that is why a row's bits do not depend on the kernel that a batch of its size is given
// to.
inline constexpr uint32_t kMmaDepth{16};

// --- LayerNorm -----------------------------------------------------------------------------------
// A row is summed by kNormLanes lanes in this order everywhere: lane l owns the column pairs
// NormColumn(l, j) and adds their values one by one for j = 0, 1, ...; lane sums are added
// pairwise, l with l ^ 4, then ^ 8, ^ 1, ^ 2. Lanes 4i + q, i = 0..3, together own what thread q of
// a quad holds of a row of mma accumulators, so an epilogue can keep the same order in registers.
inline constexpr uint32_t kNormLanes{16};
inline constexpr uint32_t kNormPairs{kHidden / kNormLanes / 2};  // pairs of columns a lane
constexpr uint32_t NormColumn(uint32_t lane, uint32_t j) {
  return 8 * (lane / 4 * kNormPairs + j) + 2 * (lane % 4);
}
static_assert(NormColumn(15, kNormPairs - 1) == kHidden - 2, "the lanes own every column once");

// --- The paths through the network ---------------------------------------------------------------
// All compute the same function with the same bits.
//   kQuery: kRow for one sequence of at most kQueryTokens tokens. A head's query, key and value and
//          its attention are one step; with more tokens that takes longer than two.
//   kRow:  small tiles of mma.sync for few tokens, where latency counts, and for GPUs without
//          wgmma. LayerNorm is done by whoever reads a row: a block that has all columns of its
//          rows anyway normalises them on the way into shared memory.
//   kTile: 128-token tiles of wgmma for many tokens; LayerNorm is in the epilogue of the product
//          that ends a sublayer, whose tile holds whole rows.
enum class Path : uint8_t { kQuery, kRow, kTile };
inline constexpr uint32_t kQueryTokens{16};

// Device buffers a step reads and writes; T rows each.
enum class Buffer : uint8_t {
  kRequest,  // ids, positions, sequences
  kSum,      // (T, H) f32, row-major: a sublayer's sum before LayerNorm (kRow)
  kState,    // (T, H) f32, StateOffset: the residual stream after LayerNorm
  kOperand,  // (T, H) f16, panels: the same, as an operand (kTile)
  kQkv,      // (T, 3H) f16, panels
  kContext,  // (T, H) f16, panels: what attention returns
  kInner,    // (T, F) f16, panels: GELU of the up projection
  kResult,   // (B, H) f32, row-major
};

enum class Operation : uint8_t {
  kEmbed,               // kSum = word + position + type
  kEmbedNorm,           // kState, kOperand = LN(word + position + type)
  kNormLinear,          // kState = LN(kSum); out = kState . W^T + b
  kNormLinearGelu,      // the same through GELU
  kNormAttend,          // kNormLinear and kAttention of one sequence
  kLinear,              // out = kOperand . W^T + b
  kLinearGelu,          // the same through GELU
  kAttention,           // kContext = softmax(Q K^T / sqrt(D)) V, each sequence sees only itself
  kLinearResidual,      // kSum = (kState + b) + in . W^T
  kLinearResidualNorm,  // kState, kOperand = LN((kState + b) + in . W^T)
  kNormPool,            // kResult = pooled LN(kSum)
  kPool,                // kResult = pooled kState
};

// One kernel launch. `norm` counts the LayerNorms of the model in order: 0 is the embedding's, then
// two a layer.
struct Step {
  Operation operation;
  uint32_t layer;  // whose matrix; 0 for the others
  Matrix matrix;   // meaningful for linear operations only
  Buffer in;
  Buffer out;
  uint32_t norm;  // the LayerNorm that the step applies, if it applies one
};

// The launches of one batch, in order: each reads only what steps before it wrote.
std::vector<Step> PlanSteps(Path path, uint32_t layers);

// --- Tiles ---------------------------------------------------------------------------------------
// Tokens of a row tile: more blocks of few tokens are faster until every block's own copy of the
// weights is what takes the time.
constexpr uint32_t RowTokens(uint32_t tokens) { return tokens <= 32 ? 16 : 32; }

// Up to here a kernel of the row path lets the next one start when it starts itself: all weights of
// the chain are on their way early. With more tokens the waiting blocks are in the way.
inline constexpr uint32_t kEarlyStartTokens{32};

// kRow: a block of 4 warps computes `tokens` x `columns` of an output; every warp has whole n8
// tiles.
struct RowTile {
  uint32_t tokens;
  uint32_t columns;

  constexpr size_t SharedBytes(Matrix matrix) const {
    return size_t{2} * (tokens + columns) * Columns(matrix);
  }
};
inline constexpr uint32_t kRowThreads{128};
constexpr RowTile RowTileOf(Matrix matrix, uint32_t tokens) {
  return {.tokens = tokens, .columns = matrix == Matrix::kDown ? 16u : 32u};
}
static_assert(Rows(Matrix::kQkv) % 32 == 0 && kHidden % 32 == 0 && kFfn % 32 == 0,
              "a remainder would be computed twice or not at all");

// kTile: clusters of two blocks of 128 tokens each share every tile of weights they load.
inline constexpr uint32_t kTileTokens{128};
inline constexpr uint32_t kTileColumns{128};  // of an output that needs no LayerNorm
inline constexpr uint32_t kTileCluster{2};
static_assert(Rows(Matrix::kQkv) % kTileColumns == 0 && kFfn % kTileColumns == 0);

// Attention: a block has 64 queries of one head of one sequence, a warp for each 16; keys come as
// many at a time and are added 32 at a time, with a running maximum. Where no sequence is longer
// than kShortRows, a block has that many.
inline constexpr uint32_t kQueryRows{64};
inline constexpr uint32_t kShortRows{32};
inline constexpr uint32_t kKeyStep{32};
static_assert(kQueryRows % kKeyStep == 0 && kShortRows % kKeyStep == 0 && kKeyStep % 16 == 0);

// Work space is sized once for a piece of a batch: one tile of tokens for each of an H200's 132
// multiprocessors, so that no product has a partly filled last wave.
inline constexpr uint32_t kPieceTokens{132 * kTileTokens};
inline constexpr uint32_t kPieceSequences{4096};

// Up to here the row path is faster than the tile path (docs/gpu-spike.md).
inline constexpr uint32_t kRowPathTokens{512};

// Query sizes that have a CUDA graph of their own: the smallest bucket that holds T tokens; 0 if
// there is none and the launches are made one by one.
constexpr uint32_t GraphBucket(uint32_t tokens) {
  if (tokens <= 64) return (tokens + 15) / 16 * 16;
  if (tokens <= kRowPathTokens) return (tokens + 63) / 64 * 64;
  return 0;
}

// --- A batch in device memory --------------------------------------------------------------------
// One piece of memory, copied as one: header, then arrays whose places depend on the capacity only.
struct RequestHeader {
  uint32_t tokens;     // T
  uint32_t sequences;  // B
  uint32_t items;      // entries of `items`
  uint32_t columns;    // of a result row that are wanted
  uint32_t normalize;  // 1: v / max(|v|, 1e-12)
  uint32_t unused[3];
};
struct AttentionItem {
  uint32_t first;   // the sequence's first token
  uint32_t length;  // S
  uint32_t query;   // the first query row of this item, within the sequence
  uint32_t unused;
};
struct RequestLayout {
  uint32_t tokens;     // capacity
  uint32_t sequences;  // capacity

  constexpr uint32_t Items() const { return sequences + tokens / kQueryRows; }
  // Places in bytes.
  constexpr size_t ItemsAt() const { return sizeof(RequestHeader); }
  constexpr size_t IdsAt() const { return ItemsAt() + sizeof(AttentionItem) * Items(); }
  constexpr size_t PositionsAt() const { return IdsAt() + sizeof(uint32_t) * tokens; }
  constexpr size_t OffsetsAt() const { return PositionsAt() + sizeof(uint32_t) * tokens; }
  constexpr size_t Bytes() const {
    return (OffsetsAt() + sizeof(uint32_t) * (sequences + 1) + 15) / 16 * 16;
  }
};
static_assert(sizeof(RequestHeader) % 16 == 0 && sizeof(AttentionItem) == 16);

// --- Weights in device memory --------------------------------------------------------------------
// One allocation. f16: word and position rows (row-major), the matrices (panels); f32: biases and
// LayerNorm parameters. Places in bytes, each a multiple of 1024.
struct WeightLayout {
  uint32_t vocabulary;
  uint32_t positions;
  uint32_t layers;

  constexpr size_t WordsAt() const { return 0; }
  constexpr size_t PositionsAt() const { return Up(HalfRows(vocabulary)); }
  constexpr size_t FirstNormAt() const { return PositionsAt() + Up(HalfRows(positions)); }
  constexpr size_t LayerAt(uint32_t layer) const {
    return FirstNormAt() + Up(kNormBytes) + layer * LayerBytes();
  }
  constexpr size_t MatrixAt(uint32_t layer, Matrix matrix) const {
    size_t at = LayerAt(layer);
    for (const Matrix before : kMatrices) {
      if (before == matrix) return at;
      at += MatrixBytes(before);
    }
    return at;
  }
  constexpr size_t BiasAt(uint32_t layer, Matrix matrix) const {
    return MatrixAt(layer, matrix) + size_t{2} * Rows(matrix) * Columns(matrix);
  }
  // Gamma, then beta, H f32 each.
  constexpr size_t NormAt(uint32_t norm) const {
    if (norm == 0) return FirstNormAt();
    return LayerAt((norm - 1) / 2) + LayerBytes() - (2 - (norm - 1) % 2) * Up(kNormBytes);
  }
  constexpr size_t Bytes() const { return LayerAt(layers); }

  static constexpr size_t kNormBytes{2 * kHidden * sizeof(float)};
  static constexpr size_t Up(size_t bytes) { return (bytes + 1023) / 1024 * 1024; }
  static constexpr size_t HalfRows(uint32_t rows) { return size_t{2} * rows * kHidden; }
  static constexpr size_t MatrixBytes(Matrix matrix) {
    return Up(size_t{2} * Rows(matrix) * Columns(matrix)) + Up(sizeof(float) * Rows(matrix));
  }
  static constexpr size_t LayerBytes() {
    size_t bytes = 2 * Up(kNormBytes);
    for (const Matrix matrix : kMatrices) bytes += MatrixBytes(matrix);
    return bytes;
  }
};

// kUnsupported, naming the key, the value and what the kernels are compiled for, unless a model of
// this shape can run.
Result<void> CheckShape(const EncoderConfig& config);

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_PLAN_H_
