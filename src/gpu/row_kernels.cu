#include "gpu/row_kernels.h"

#include "gpu/attention.h"
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"

namespace sprat::gpu {
namespace {

// --- Embedding -----------------------------------------------------------------------------------

struct EmbedArguments {
  const uint16_t* words;      // (V, H) f16
  const uint16_t* positions;  // (positions, H) f16, token type 0 included
  const float* norm;          // gamma, beta
  const uint4* source;        // the request as the host wrote it
  uint4* request;             // where later kernels read it; may be the same
  uint32_t request_quads;     // its size in units of 16 bytes
  const uint32_t* ids;        // in `source`
  const uint32_t* places;     // in `source`: the position of each token in its sequence
  float* sum;
  float* state;
  uint16_t* operand;
  uint32_t tokens;
  uint32_t rows;  // capacity
  float eps;
  bool early;  // LaunchContext, here and below
};

__device__ inline float2 HalfPair(const uint16_t* at) {
  return UnpackHalves(__ldg(reinterpret_cast<const uint32_t*>(at)));
}

constexpr uint32_t kEmbedThreads{256};

// 16 lanes a token, 16 tokens a block: a row of tiles of `state`.
template <bool kNorm>
__global__ void __launch_bounds__(kEmbedThreads) Embed(EmbedArguments a) {
  LetNextStart(a.early);
  const uint32_t lane = threadIdx.x % kNormLanes;
  constexpr uint32_t kBlockTokens{kEmbedThreads / kNormLanes};
  const uint32_t token = blockIdx.x * kBlockTokens + threadIdx.x / kNormLanes;
  WaitForPrevious();  // of the batch before, whose buffers these are
  LetNextStart(!a.early);
  if (a.source != a.request) {
    for (uint32_t i = blockIdx.x * kEmbedThreads + threadIdx.x; i < a.request_quads;
         i += gridDim.x * kEmbedThreads) {
      a.request[i] = a.source[i];
    }
  }
  const uint32_t row = min(token, a.tokens - 1);  // a warp stays whole for its shuffles
  const uint16_t* word = a.words + size_t{a.ids[row]} * kHidden;
  const uint16_t* place = a.positions + size_t{a.places[row]} * kHidden;
  float2 v[kNormPairs];
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    const float2 w = HalfPair(word + NormColumn(lane, j)),
                 p = HalfPair(place + NormColumn(lane, j));
    v[j] = make_float2(__fadd_rn(w.x, p.x), __fadd_rn(w.y, p.y));
  }
  if (kNorm) {
    NormParameters parameters;
    LoadNormLane(parameters, a.norm, lane);
    NormaliseLane(v, parameters, a.eps);
  }
  if (!kNorm) {
    if (token >= a.tokens) return;
#pragma unroll
    for (int j = 0; j < kNormPairs; ++j) {
      float* sum = a.sum + size_t{token} * kHidden + NormColumn(lane, j);
      *reinterpret_cast<float2*>(sum) = v[j];
    }
    return;
  }
  // Pairs would be written as parts of sectors: whole tiles go out through shared memory.
  __shared__ __align__(16) float state[kNorm ? kBlockTokens * kHidden : 4];
  __shared__ __align__(16) uint16_t operand[kNorm ? kBlockTokens * kHidden : 8];
  const uint32_t first = blockIdx.x * kBlockTokens;
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    const uint32_t column = NormColumn(lane, j);
    *reinterpret_cast<float2*>(state + StateOffset(token - first, column)) = v[j];
    *reinterpret_cast<uint32_t*>(operand + PanelOffset(token - first, column, kBlockTokens)) =
        PackHalves(v[j].x, v[j].y);
  }
  __syncthreads();
  constexpr uint32_t kStateQuads{kBlockTokens * kHidden / 4},
      kPanelQuads{kBlockTokens * kPanel / 8};
  for (uint32_t i = threadIdx.x; i < kStateQuads; i += kEmbedThreads) {
    reinterpret_cast<uint4*>(a.state + StateOffset(first, 0))[i] =
        reinterpret_cast<const uint4*>(state)[i];
  }
  for (uint32_t i = threadIdx.x; i < kHidden / kPanel * kPanelQuads; i += kEmbedThreads) {
    const size_t row = size_t{i / kPanelQuads} * a.rows + first;
    reinterpret_cast<uint4*>(a.operand + row * kPanel)[i % kPanelQuads] =
        reinterpret_cast<const uint4*>(operand)[i];
  }
}

// --- Linear --------------------------------------------------------------------------------------

struct LinearArguments {
  const uint16_t* weights;  // panels
  const float* bias;
  const float* norm;     // gamma, beta of the LayerNorm on the way in
  float* sum;            // in, or out
  float* state;          // out, or in
  const uint16_t* from;  // panels, where the input needs no LayerNorm
  uint16_t* to;          // panels, where the output is an operand
  uint32_t rows;         // capacity
  float eps;
  bool early;
};

enum class Output { kOperand, kGelu, kResidual };

// LayerNorm of kTokens rows of `sum` into panels in shared memory. The blocks of one row tile share
// the work of writing the rows to `state`.
template <uint32_t kTokens>
__device__ inline void NormaliseRows(const LinearArguments& a, uint32_t first, uint16_t* shared) {
  constexpr uint32_t kAtOnce{kRowThreads / kNormLanes};
  const uint32_t lane = threadIdx.x % kNormLanes;
  NormParameters parameters;
  LoadNormLane(parameters, a.norm, lane);
  WaitForPrevious();
  LetNextStart(!a.early);
  static_assert(kTokens % (2 * kAtOnce) == 0);
#pragma unroll
  for (uint32_t first_row = 0; first_row < kTokens; first_row += 2 * kAtOnce) {
    float2 v[2][kNormPairs];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = first_row + i * kAtOnce + threadIdx.x / kNormLanes;
      LoadNormLane(v[i], a.sum + size_t{first + row} * kHidden, lane);
    }
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = first_row + i * kAtOnce + threadIdx.x / kNormLanes;
      NormaliseLane(v[i], parameters, a.eps);
      const bool keep = row % gridDim.x == blockIdx.x;
#pragma unroll
      for (int j = 0; j < kNormPairs; ++j) {
        const uint32_t column = NormColumn(lane, j);
        *reinterpret_cast<uint32_t*>(shared + PanelOffset(row, column, kTokens)) =
            PackHalves(v[i][j].x, v[i][j].y);
        if (keep) {
          *reinterpret_cast<float2*>(a.state + StateOffset(first + row, column)) = v[i][j];
        }
      }
    }
  }
}

// Rows first .. first + kCount of a panel matrix of `rows` rows and kDepth columns.
template <uint32_t kCount, uint32_t kDepth>
__device__ inline void CopyRows(const uint16_t* from, uint32_t first, uint32_t rows, uint32_t to) {
  constexpr uint32_t kChunks{kCount * kPanel / 8};  // of 16 bytes, in one panel
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < kDepth / kPanel * kChunks; i += kRowThreads) {
    const uint32_t panel = i / kChunks, chunk = i % kChunks;
    CopyAsync(to + 16 * i, from + (size_t{panel} * rows + first) * kPanel + 8 * chunk);
  }
}

// What a warp's products need for one panel: loaded a panel ahead, because the chain of dependent
// products is the longest part of a short kernel.
template <uint32_t kTiles>
struct Fragments {
  uint32_t weights[kPanel / 32][4];
  uint32_t rows[kPanel / kMmaDepth][kTiles][4];
};

// One (kTokens, kColumns) tile of in . W^T: block (x, y) has columns x, tokens y.
template <Matrix kMatrix, uint32_t kTokens, bool kNorm, Output kOutput>
__global__ void __launch_bounds__(kRowThreads) RowLinear(LinearArguments a) {
  constexpr uint32_t kColumns{RowTileOf(kMatrix, kTokens).columns}, kDepth{Columns(kMatrix)};
  constexpr uint32_t kColumnTiles{kColumns / 8}, kTokenTiles{kTokens / 16};
  constexpr uint32_t kGroups{kRowThreads / 32 / kColumnTiles};  // of warps, by token tiles
  constexpr uint32_t kTiles{(kTokenTiles + kGroups - 1) / kGroups};
  extern __shared__ __align__(1024) uint16_t shared[];  // weights, then tokens
  LetNextStart(a.early);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t column0 = blockIdx.x * kColumns, token0 = blockIdx.y * kTokens;
  const uint32_t weights = SharedAddress(shared), tokens = weights + 2 * kColumns * kDepth;
  CopyRows<kColumns, kDepth>(a.weights, column0, Rows(kMatrix), weights);
  const uint32_t column = column0 + warp % kColumnTiles * 8 + lane % 4 * 2;
  const float2 bias = __ldg(reinterpret_cast<const float2*>(a.bias + column));
  if (kNorm) {
    NormaliseRows<kTokens>(a, token0, shared + kColumns * kDepth);
  } else {
    WaitForPrevious();
    LetNextStart(!a.early);
    CopyRows<kTokens, kDepth>(a.from, token0, a.rows, tokens);
  }
  CommitCopies();
  const uint32_t tile0 = warp / kColumnTiles;
  float sums[kTiles][4];
#pragma unroll
  for (uint32_t i = 0; i < kTiles; ++i) {
    sums[i][0] = sums[i][2] = bias.x;
    sums[i][1] = sums[i][3] = bias.y;
    if (kOutput != Output::kResidual || tile0 + i * kGroups >= kTokenTiles) continue;
    const uint32_t row = token0 + (tile0 + i * kGroups) * 16 + lane / 4;
    const float4 state =
        __ldcg(reinterpret_cast<const float4*>(a.state + StateOffset(row, column)));
    sums[i][0] = __fadd_rn(state.x, bias.x);
    sums[i][1] = __fadd_rn(state.y, bias.y);
    sums[i][2] = __fadd_rn(state.z, bias.x);
    sums[i][3] = __fadd_rn(state.w, bias.y);
  }
  WaitForCopies<0>();
  __syncthreads();
  if (tile0 >= kTokenTiles) return;

  Fragments<kTiles> fragments[2];
  const auto load = [&](uint32_t panel) {
    Fragments<kTiles>& f = fragments[panel % 2];
#pragma unroll
    for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
      const uint32_t k = panel * kPanel + step * kMmaDepth;
      if (step % 2 == 0) {
        LoadMatrices(f.weights[step / 2],
                     weights + 2 * PanelOffset(warp % kColumnTiles * 8 + lane % 8, k + lane / 8 * 8,
                                               kColumns));
      }
#pragma unroll
      for (uint32_t i = 0; i < kTiles; ++i) {
        LoadMatrices(f.rows[step][i],
                     tokens + 2 * PanelOffset((tile0 + i * kGroups) * 16 + lane % 16,
                                              k + lane / 16 * 8, kTokens));
      }
    }
  };
  load(0);
#pragma unroll 6
  for (uint32_t panel = 0; panel < kDepth / kPanel; ++panel) {
    if (panel + 1 < kDepth / kPanel) load(panel + 1);
    const Fragments<kTiles>& f = fragments[panel % 2];
#pragma unroll
    for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
#pragma unroll
      for (uint32_t i = 0; i < kTiles; ++i) {
        Mma(sums[i], f.rows[step][i], f.weights[step / 2][step % 2 * 2],
            f.weights[step / 2][step % 2 * 2 + 1]);
      }
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < kTiles; ++i) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = token0 + (tile0 + i * kGroups) * 16 + half * 8 + lane / 4;
      float x = sums[i][2 * half], y = sums[i][2 * half + 1];
      if (kOutput == Output::kResidual) {
        *reinterpret_cast<float2*>(a.sum + size_t{row} * kHidden + column) = make_float2(x, y);
        continue;
      }
      if (kOutput == Output::kGelu) {
        x = Gelu(x);
        y = Gelu(y);
      }
      *reinterpret_cast<uint32_t*>(a.to + PanelOffset(row, column, a.rows)) = PackHalves(x, y);
    }
  }
}

// --- Launches ------------------------------------------------------------------------------------

const uint16_t* Halves(const std::byte* p) { return reinterpret_cast<const uint16_t*>(p); }
const float* Floats(const std::byte* p) { return reinterpret_cast<const float*>(p); }

template <bool kNorm>
cudaError_t LaunchEmbedding(const Step& step, const LaunchContext& c) {
  const Buffers& b = c.buffers;
  const EmbedArguments arguments{
      .words = Halves(b.weights + c.weights.WordsAt()),
      .positions = Halves(b.weights + c.weights.PositionsAt()),
      .norm = Floats(b.weights + c.weights.NormAt(step.norm)),
      .source = reinterpret_cast<const uint4*>(b.source),
      .request = reinterpret_cast<uint4*>(b.request),
      .request_quads = static_cast<uint32_t>(c.request.Bytes() / 16),
      .ids = reinterpret_cast<const uint32_t*>(b.source + c.request.IdsAt()),
      .places = reinterpret_cast<const uint32_t*>(b.source + c.request.PositionsAt()),
      .sum = b.sum,
      .state = b.state,
      .operand = b.operand,
      .tokens = c.tokens,
      .rows = b.rows,
      .eps = c.eps,
      .early = c.early};
  constexpr uint32_t kBlockTokens{kEmbedThreads / kNormLanes};
  return Launch(Embed<kNorm>,
                {.grid = dim3((c.tokens + kBlockTokens - 1) / kBlockTokens),
                 .threads = kEmbedThreads,
                 .overlap = c.overlap},
                c.stream, arguments);
}

template <Matrix kMatrix, bool kNorm, Output kOutput>
cudaError_t LaunchLinear(const Step& step, const LaunchContext& c, uint16_t* to) {
  const Buffers& b = c.buffers;
  const LinearArguments arguments{
      .weights = Halves(b.weights + c.weights.MatrixAt(step.layer, kMatrix)),
      .bias = Floats(b.weights + c.weights.BiasAt(step.layer, kMatrix)),
      .norm = Floats(b.weights + c.weights.NormAt(step.norm)),
      .sum = b.sum,
      .state = b.state,
      .from = kMatrix == Matrix::kDown ? b.inner : b.context,
      .to = to,
      .rows = b.rows,
      .eps = c.eps,
      .early = c.early};
  const RowTile tile = RowTileOf(kMatrix, c.tile_rows);
  return Launch(
      c.tile_rows == 16 ? RowLinear<kMatrix, 16, kNorm, kOutput>
                        : RowLinear<kMatrix, 32, kNorm, kOutput>,
      {.grid = dim3(Rows(kMatrix) / tile.columns, (c.tokens + tile.tokens - 1) / tile.tokens),
       .threads = kRowThreads,
       .shared_bytes = tile.SharedBytes(kMatrix),
       .overlap = c.overlap},
      c.stream, arguments);
}

template <Matrix kMatrix, uint32_t kTokens, bool kNorm, Output kOutput>
cudaError_t AllowShared() {
  return cudaFuncSetAttribute(RowLinear<kMatrix, kTokens, kNorm, kOutput>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(RowTileOf(kMatrix, kTokens).SharedBytes(kMatrix)));
}

template <uint32_t kTokens>
cudaError_t AllowSharedOfTile() {
  const cudaError_t results[] = {AllowShared<Matrix::kQkv, kTokens, true, Output::kOperand>(),
                                 AllowShared<Matrix::kOut, kTokens, false, Output::kResidual>(),
                                 AllowShared<Matrix::kUp, kTokens, true, Output::kGelu>(),
                                 AllowShared<Matrix::kDown, kTokens, false, Output::kResidual>()};
  for (const cudaError_t result : results) {
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t LaunchEmbedNorm(const Step& step, const LaunchContext& context) {
  return LaunchEmbedding<true>(step, context);
}

cudaError_t LaunchRowStep(const Step& step, const LaunchContext& context) {
  switch (step.operation) {
    case Operation::kEmbed:
      return LaunchEmbedding<false>(step, context);
    case Operation::kNormLinear:
      return LaunchLinear<Matrix::kQkv, true, Output::kOperand>(step, context, context.buffers.qkv);
    case Operation::kAttention:
      return LaunchAttention(context);
    case Operation::kNormAttend:
      return LaunchQueryAttention(step, context);
    case Operation::kNormLinearGelu:
      return LaunchLinear<Matrix::kUp, true, Output::kGelu>(step, context, context.buffers.inner);
    case Operation::kLinearResidual:
      if (step.matrix == Matrix::kOut) {
        return LaunchLinear<Matrix::kOut, false, Output::kResidual>(step, context, nullptr);
      }
      return LaunchLinear<Matrix::kDown, false, Output::kResidual>(step, context, nullptr);
    case Operation::kNormPool:
      return LaunchNormPool(step, context);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t CanOverlap(bool& can) {
  cudaFuncAttributes attributes = {};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, Embed<true>);
  can = status == cudaSuccess && attributes.ptxVersion >= 90;
  return status;
}

cudaError_t PrepareRowKernels(uint32_t tile_rows) {
  const cudaError_t small = AllowSharedOfTile<16>();
  if (small != cudaSuccess || tile_rows == 16) return small;
  return AllowSharedOfTile<32>();
}

}  // namespace sprat::gpu
