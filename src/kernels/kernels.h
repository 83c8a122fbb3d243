// The CPU operations of the forward pass, f32: one table of function pointers for each instruction
// set. This header holds plain structures and pointers only, so that a file compiled for an
// instruction set exports no function of its own (see STYLE.md, section 7).
//
// Common to all entries
//   Rows are `stride` floats apart, any alignment. Nothing is read or written past the last column.
//   Any number of threads may call at once as long as none writes what another reads.
//   Same bits: a row of a result depends on the inputs of that row only; not on the number of rows,
//   the row's place among them, how rows, panels or queries are divided over calls, or alignment.
#ifndef SPRAT_KERNELS_KERNELS_H_
#define SPRAT_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace sprat {

// What is applied to x . W^T + b.
enum class Epilogue {
  kNone,
  kGelu,      // x * Phi(x), the erf form
  kGeluTanh,  // x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
  kRelu       // max(x, 0)
};

// A weight matrix W (out, in) and its bias (out), in the form that the table's `pack` makes: a
// number of equal panels, each holding `panel_rows` rows of W.
struct PackedWeights {
  const void* panels;  // 64-byte aligned
  const float* bias;   // `out` rounded up to whole panels, the rest 0; 64-byte aligned
  size_t in;
  size_t out;
};

struct LinearArgs {
  const float* x;  // (rows, in)
  size_t x_stride;
  size_t rows;
  PackedWeights weights;
  size_t first_panel;  // only columns of these panels are computed
  size_t panels;
  Epilogue epilogue;
  float* y;  // (rows, out), does not overlap x
  size_t y_stride;
};

struct AttentionArgs {
  const float* q;  // (keys, head_size), as k and v: three column ranges of one matrix
  const float* k;
  const float* v;
  size_t stride;  // of q, k and v
  size_t keys;    // S >= 1
  size_t head_size;
  size_t first_query;  // only these rows of the result are computed
  size_t queries;
  float* out;  // (keys, head_size), overlaps nothing
  size_t out_stride;
  float* scratch;  // attention_scratch(keys, head_size) floats, 64-byte aligned; one a thread
};

struct LayerNormArgs {
  float* x;  // (rows, columns), in place
  size_t x_stride;
  const float* y;  // (rows, columns): added first
  size_t y_stride;
  size_t rows;
  size_t columns;
  const float* gamma;  // columns
  const float* beta;   // columns
  float eps;
};

struct SumRowsArgs {
  const float* x;  // (rows, columns)
  size_t x_stride;
  size_t rows;
  size_t columns;
  const float* weights;  // one a row; nullptr: all 1
  float scale;
  float* out;  // columns
};

// How the rows of a table are stored.
enum class RowType { kF32, kF16, kI8 };

struct GatherArgs {
  const void* table;  // dense rows of `stride` elements, any alignment
  RowType type;
  size_t stride;
  const uint32_t* rows;  // `count` row numbers
  const float* weights;  // one for each of `rows`; nullptr: all 1
  size_t count;
  size_t columns;  // the first ones of a row, <= stride
  float scale;
  float* out;  // columns
};

// In the bounds below u = 2^-24, and errors are to first order, as in Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd ed., section 3.1.
struct Kernels {
  const char* name;   // what SPRAT_FORCE_ISA calls it
  size_t panel_rows;  // rows of W (columns of the result) in one panel

  // Size of one panel of a matrix with `in` columns, in bytes; a multiple of 64.
  size_t (*panel_bytes)(size_t in);

  // Packs rows [first_row, first_row + panel_rows) of W (out, in), row-major and dense, into one
  // panel; rows past `out` become zeros. first_row is a multiple of panel_rows.
  void (*pack_panel)(const float* w, size_t in, size_t out, size_t first_row, void* panel);

  // y = epilogue(x . W^T + b) for the columns of the panels asked for.
  // Numerics: each element is one f32 sum over `in` in ascending order, then the bias:
  //   |error| <= (in + 1) u (|x| . |W|^T + |b|) before the epilogue. GELU adds at most 4e-7 |x|.
  void (*linear)(const LinearArgs& args);

  // out[i] = sum_j softmax_j(q[i] . k[j] / sqrt(D)) v[j] for the queries asked for (Vaswani et al.
  // 2017, arXiv:1706.03762, section 3.2.1), one head, no mask.
  // Numerics: f32 throughout, the row's maximum subtracted first, exp within 2e-7 relative. With
  //   e = 2 (D + 2) u max_j(|q[i]| . |k[j]|) / sqrt(D) + 4e-7, the error of the exponents,
  //   |error| <= (2 e + (S + 4) u) max_j |v[j]|.
  void (*attention)(const AttentionArgs& args);
  size_t (*attention_scratch)(size_t max_keys, size_t head_size);  // in floats

  // x = gamma * (t - mean(t)) / sqrt(var(t) + eps) + beta with t = x + y, row by row; var is the
  // mean of squares around the mean (Ba et al. 2016, arXiv:1607.06450).
  // Numerics: two passes over t, f32 sums. With n = columns and t = x + y rounded,
  //   |error| <= (n + 8) u (|gamma| (max|t| / sqrt(var + eps) + |normalised|) + |beta|).
  void (*add_layer_norm)(const LayerNormArgs& args);

  // out = scale * sum_i weights[i] * x[i], rows added in ascending order, each column by itself.
  //   |error| <= (rows + 1) u |scale| sum_i |weights[i] * x[i]|.
  void (*sum_rows)(const SumRowsArgs& args);

  // out[c] = max_i x[i][c], exact; rows >= 1. `weights` and `scale` are ignored.
  void (*max_rows)(const SumRowsArgs& args);

  // out = scale * sum_t weights[t] * table[rows[t]] as f32, each column by itself, t ascending.
  //   |error| <= (count + 1) u |scale| sum_t |weights[t] * table[rows[t]]|.
  void (*gather_rows)(const GatherArgs& args);

  // x /= max(|x|, 1e-12), |x| the Euclidean norm of n values. Relative error <= (n / 2 + 4) u.
  void (*l2_normalize)(float* x, size_t n);
};

// The panel of the f32 tables: (in, 48), so that the 48 weights that meet x[k] lie side by side.
inline constexpr size_t kPanelRowsF32{48};
size_t PanelBytesF32(size_t in);
void PackPanelF32(const float* w, size_t in, size_t out, size_t first_row, void* panel);

extern const Kernels kScalarKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace sprat

#endif  // SPRAT_KERNELS_KERNELS_H_
