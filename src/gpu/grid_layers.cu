#include "gpu/grid_layers.h"

#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"

namespace sprat::gpu::grid {
namespace {

constexpr uint32_t kPatience{2'000'000};  // tries of all waits of a thread together

// --- Memory --------------------------------------------------------------------------------------
__device__ inline uint4 LoadRelaxed(const uint32_t* at) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline uint32_t LoadRelaxedWord(const uint32_t* at) {
  uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline void StoreRelaxed(uint32_t* at, uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ inline void StoreRelaxed(uint32_t* at, uint4 v) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ inline bool Unset(const uint4& v) {
  return v.x == kUnset || v.y == kUnset || v.z == kUnset || v.w == kUnset;
}
__device__ inline uint32_t Transpose(uint32_t x) {  // of an 8x8 matrix of f16
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
__device__ inline float ReciprocalRoot(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// What every part of a block's work needs. Lane 4g + q.
struct Block {
  const GridArguments& a;
  Assignment assignment;
  std::byte* shared;
  uint32_t warp, lane, g, q;
  uint32_t patience;

  __device__ uint32_t* At(Exchange exchange, uint32_t layer, uint32_t slice, uint32_t tile,
                          uint32_t tiles) const {
    return a.exchange + ExchangeAt(exchange, layer, slice, tile, tiles);
  }
  __device__ void Expired() {
    patience = 0;
    atomicCAS(a.failure, 0, 1 + blockIdx.x);
  }
};

// Waits until this lane's words of kCount slices, from `first` on, are set. x[i * tiles + t].
template <uint32_t kTiles, uint32_t kCount>
__device__ inline void Receive(Block& b, Exchange exchange, uint32_t layer, uint32_t first,
                               uint4 (&x)[kCount * kTiles]) {
  const uint32_t* at = b.At(exchange, layer, first, 0, kTiles) + 4 * b.lane;
  bool unset;
#pragma unroll 1
  do {
    unset = false;
#pragma unroll
    for (uint32_t i = 0; i < kCount * kTiles; ++i) x[i] = LoadRelaxed(at + i * kSliceWords);
#pragma unroll
    for (uint32_t i = 0; i < kCount * kTiles; ++i) unset |= Unset(x[i]);
    if (unset && b.patience > 0 && --b.patience == 0) b.Expired();
  } while (unset && b.patience > 0);
  __syncwarp();
}

// --- Weights -------------------------------------------------------------------------------------
__device__ inline void StartWeights(const Block& b, uint32_t barriers) {
  const uint32_t bytes = StageBytes(b.assignment.role);
  const uint32_t to = SharedAddress(b.shared);
#pragma unroll 1
  for (uint32_t stage = 0; stage < b.assignment.Stages(); ++stage) {
    if (b.assignment.Layer(stage) >= b.a.layers) break;
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barriers + 8 * stage),
        "r"(bytes)
        : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to + stage * bytes),
        "l"(b.a.weights + StageAt(blockIdx.x, stage)), "r"(bytes), "r"(barriers + 8 * stage)
        : "memory");
  }
}
__device__ inline void WaitForWeights(Block& b, uint32_t barrier) {
  uint32_t done = 0;
#pragma unroll 1
  while (done == 0 && b.patience > 0) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
        "selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
    if (done == 0 && --b.patience == 0) b.Expired();
  }
}
// This warp's fragments of one product.
template <uint32_t kFragments>
__device__ inline void LoadFragments(const Block& b, const std::byte* product,
                                     uint32_t (&weights)[kFragments][4]) {
  const uint4* from =
      reinterpret_cast<const uint4*>(product + b.warp * kFragments * kFragmentBytes) + b.lane;
#pragma unroll
  for (uint32_t i = 0; i < kFragments; ++i) {
    const uint4 v = from[32 * i];
    weights[i][0] = v.x;
    weights[i][1] = v.y;
    weights[i][2] = v.z;
    weights[i][3] = v.w;
  }
}

// --- Products ------------------------------------------------------------------------------------
// This warp's share of one 16-row tile: kSteps fragments times slices of one token tile.
template <uint32_t kTiles, uint32_t kSteps, uint32_t kFragments>
__device__ inline float4 Multiply(const uint32_t (&weights)[kFragments][4], uint32_t first,
                                  const uint4 (&x)[kSteps / 2 * kTiles], uint32_t tile) {
  float sums[2][4] = {};
#pragma unroll
  for (uint32_t step = 0; step < kSteps; step += 2) {
    const uint4& v = x[step / 2 * kTiles + tile];
    Mma(sums[0], weights[first + step], v.x, v.y);
    Mma(sums[1], weights[first + step + 1], v.z, v.w);
  }
  return make_float4(sums[0][0] + sums[1][0], sums[0][1] + sums[1][1], sums[0][2] + sums[1][2],
                     sums[0][3] + sums[1][3]);
}
// Partial sums: [warp][tile of rows][tile of tokens][lane].
template <uint32_t kTiles, uint32_t kRowTiles>
struct Partials {
  float4* at;

  __device__ void Store(const Block& b, uint32_t row_tile, uint32_t tile, float4 v) const {
    at[((b.warp * kRowTiles + row_tile) * kTiles + tile) * 32 + b.lane] = v;
  }
  // Row 8 * half + g of a tile, tokens 2q and 2q + 1.
  __device__ float2 Sum(const Block& b, uint32_t row_tile, uint32_t tile, uint32_t half) const {
    float x[kWarps], y[kWarps];
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) {
      const float4* from = at + ((w * kRowTiles + row_tile) * kTiles + tile) * 32 + b.lane;
      const float2 v = reinterpret_cast<const float2*>(from)[half];
      x[w] = v.x;
      y[w] = v.y;
    }
    return make_float2(SumOverWarps(x), SumOverWarps(y));
  }
};

// --- Statistics of tokens ------------------------------------------------------------------------
// {sum, sum of squares} of each warp's slice: [warp][token].
template <uint32_t kTiles>
struct Statistics {
  float2* at;

  __device__ void Store(const Block& b, uint32_t tile, const uint4& slice) const {
    float sum = 0.0f, squares = 0.0f;
    const uint32_t words[4] = {slice.x, slice.y, slice.z, slice.w};
#pragma unroll
    for (uint32_t c = 0; c < 4; ++c) {
      const float2 v = UnpackHalves(words[c]);
      sum += v.x + v.y;
      squares = fmaf(v.y, v.y, fmaf(v.x, v.x, squares));
    }
#pragma unroll
    for (uint32_t mask = 1; mask <= 2; mask *= 2) {
      sum += __shfl_xor_sync(~0u, sum, mask);
      squares += __shfl_xor_sync(~0u, squares, mask);
    }
    if (b.q == 0) at[b.warp * kTiles * kTile + tile * kTile + b.g] = make_float2(sum, squares);
  }
  // {mean, scale} of tokens 2q and 2q + 1 of a tile.
  __device__ float4 Get(const Block& b, uint32_t tile) const {
    float s[2][kWarps], ss[2][kWarps];
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) {
      const float4 v =
          *reinterpret_cast<const float4*>(at + w * kTiles * kTile + tile * kTile + 2 * b.q);
      s[0][w] = v.x;
      ss[0][w] = v.y;
      s[1][w] = v.z;
      ss[1][w] = v.w;
    }
    float mean[2], scale[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      mean[i] = SumOverWarps(s[i]) * (1.0f / kHidden);
      const float variance = fmaf(-mean[i], mean[i], SumOverWarps(ss[i]) * (1.0f / kHidden));
      scale[i] = ReciprocalRoot(fmaxf(variance, 0.0f) + b.a.eps);
    }
    return make_float4(mean[0], scale[0], mean[1], scale[1]);
  }
};
__device__ inline float Folded(float product, float mean, float scale, float2 sum_bias) {
  return fmaf(scale, fmaf(-mean, sum_bias.x, product), sum_bias.y);
}

template <uint32_t kTiles>
__device__ inline void Unset(const Block& b, Exchange exchange, uint32_t layer, uint32_t slice) {
  uint32_t* at = b.a.other + ExchangeAt(exchange, layer, slice, 0, kTiles);
  for (uint32_t i = threadIdx.x; i < kTiles * kSliceWords / 4; i += kThreads) {
    StoreRelaxed(at + 4 * i, make_uint4(kUnset, kUnset, kUnset, kUnset));
  }
}

// --- Attention -----------------------------------------------------------------------------------
// Words of q, k, v: [part][tile][chunk of 8 columns][lane].
template <uint32_t kTiles>
__device__ inline const uint32_t* OperandAt(const uint32_t* operands, uint32_t part, uint32_t tile,
                                            uint32_t chunk) {
  return operands + ((part * kTiles + tile) * 4 + chunk) * 32;
}

// softmax(q k^T) v of one head and all tokens, by one warp; queries are the rows of the mma.
template <uint32_t kTiles>
__device__ inline void AttendHead(const Block& b, const uint32_t* operands, uint32_t layer) {
  const auto word = [&](uint32_t part, uint32_t tile, uint32_t chunk) {
    return tile < kTiles ? OperandAt<kTiles>(operands, part, tile, chunk)[b.lane] : 0u;
  };
  float scores[kTiles][4] = {};
#pragma unroll
  for (uint32_t step = 0; step < 2; ++step) {
    const uint32_t query[4] = {word(0, 0, 2 * step), word(0, 1, 2 * step), word(0, 0, 2 * step + 1),
                               word(0, 1, 2 * step + 1)};
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      Mma(scores[t], query, word(1, t, 2 * step), word(1, t, 2 * step + 1));
    }
  }
  float total[2];
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float most = -INFINITY;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t e = 0; e < 2; ++e) {
        float& score = scores[t][2 * half + e];
        if (kTile * t + 2 * b.q + e >= b.a.tokens) score = -INFINITY;
        most = fmaxf(most, score);
      }
    }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    total[half] = 0.0f;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      float &x = scores[t][2 * half], &y = scores[t][2 * half + 1];
      x = Exp2(x - most);
      y = Exp2(y - most);
      total[half] += x + y;
    }
    total[half] += __shfl_xor_sync(~0u, total[half], 1);
    total[half] += __shfl_xor_sync(~0u, total[half], 2);
  }
  uint32_t p[4] = {PackHalves(scores[0][0], scores[0][1]), PackHalves(scores[0][2], scores[0][3]),
                   0, 0};
  if (kTiles > 1) {
    p[2] = PackHalves(scores[kTiles - 1][0], scores[kTiles - 1][1]);
    p[3] = PackHalves(scores[kTiles - 1][2], scores[kTiles - 1][3]);
  }
  float context[4][4] = {};
#pragma unroll
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    Mma(context[chunk], p, word(2, 0, chunk), word(2, 1, chunk));
  }
#pragma unroll
  for (uint32_t t = 0; t < kTiles; ++t) {
    uint32_t words[4];
#pragma unroll
    for (uint32_t chunk = 0; chunk < 4; ++chunk) {
      words[chunk] = PackHalves(__fdividef(context[chunk][2 * t], total[t]),
                                __fdividef(context[chunk][2 * t + 1], total[t]));
    }
    StoreRelaxed(b.At(Exchange::kContext, layer, b.assignment.part, t, kTiles) + 4 * b.lane,
                 make_uint4(words[0], words[1], words[2], words[3]));
  }
}

template <uint32_t kTiles>
__device__ inline void RunAttention(Block& b) {
  constexpr SharedLayout kShared{SharedOf(Role::kAttention, kTiles)};
  constexpr uint32_t kRowTiles{kQkvProduct.tiles};
  const Partials<kTiles, kRowTiles> partials{
      reinterpret_cast<float4*>(b.shared + kShared.partials)};
  const Statistics<kTiles> statistics{reinterpret_cast<float2*>(b.shared + kShared.statistics)};
  uint32_t* operands = reinterpret_cast<uint32_t*>(b.shared + kShared.operands);
  const uint32_t barriers = SharedAddress(b.shared + kShared.barriers);
#pragma unroll 1
  for (uint32_t stage = 0; stage < b.assignment.Stages(); ++stage) {
    const uint32_t layer = b.assignment.Layer(stage);
    if (layer >= b.a.layers) break;
    const std::byte* weights_at = b.shared + stage * StageBytes(Role::kAttention);
    const float2* constants =
        reinterpret_cast<const float2*>(weights_at + StageConstantsAt(Role::kAttention));
    uint32_t weights[2 * kRowTiles][4];
    WaitForWeights(b, barriers + 8 * stage);
    LoadFragments(b, weights_at, weights);
    Unset<kTiles>(b, Exchange::kContext, layer, b.assignment.part);
    uint4 x[kTiles];
    Receive<kTiles, 1>(b, Exchange::kX, layer, b.warp, x);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      statistics.Store(b, t, x[t]);
#pragma unroll
      for (uint32_t r = 0; r < kRowTiles; ++r) {
        partials.Store(b, r, t, Multiply<kTiles, 2>(weights, 2 * r, x, t));
      }
    }
    __syncthreads();
    // A warp has 8 columns of q, k or v; values keep tokens in pairs, the others columns.
    const uint32_t part = b.warp / 4, chunk = b.warp % 4;
    const float2 sum_bias = constants[b.warp * 8 + b.g];
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      const float2 v = partials.Sum(b, b.warp / 2, t, b.warp % 2);
      const float4 s = statistics.Get(b, t);
      uint32_t word = PackHalves(Folded(v.x, s.x, s.y, sum_bias), Folded(v.y, s.z, s.w, sum_bias));
      if (part != 2) word = Transpose(word);
      operands[((part * kTiles + t) * 4 + chunk) * 32 + b.lane] = word;
    }
    __syncthreads();
    if (b.warp == 0) AttendHead<kTiles>(b, operands, layer);
  }
}

// --- Products that end a sublayer ----------------------------------------------------------------
// The raw sums of this lane's column, tokens 2q and 2q + 1, as another block sent them.
template <uint32_t kTiles>
__device__ inline float2 ReceiveOwnColumn(Block& b, uint32_t layer, uint32_t column,
                                          uint32_t tile) {
  const uint32_t* at = b.At(Exchange::kX, layer, column / kSlice, tile, kTiles);
  uint32_t words[2];
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t* word = at + SliceWord(2 * b.q + i, column / 2 * 2);
    words[i] = LoadRelaxedWord(word);
#pragma unroll 1
    while (words[i] == kUnset && b.patience > 0) {
      words[i] = LoadRelaxedWord(word);
      if (--b.patience == 0) b.Expired();
    }
  }
  const float2 first = UnpackHalves(words[0]), second = UnpackHalves(words[1]);
  return column % 2 == 0 ? make_float2(first.x, second.x) : make_float2(first.y, second.y);
}
__device__ inline float AddResidual(float product, float raw, float mean, float scale,
                                    const ResidualColumn& c) {
  return (product + c.bias) + fmaf((raw - mean) * scale, c.gamma, c.beta);
}
// Sends this warp's 8 columns, raw sums of tokens 2q and 2q + 1 in each lane.
template <uint32_t kTiles>
__device__ inline void SendColumns(const Block& b, Exchange exchange, uint32_t layer,
                                   uint32_t column, uint32_t tile, float2 v) {
  const uint32_t word = Transpose(PackHalves(v.x, v.y));
  StoreRelaxed(
      b.At(exchange, layer, column / kSlice, tile, kTiles) + 4 * b.lane + column % kSlice / 8,
      word);
}

template <uint32_t kTiles>
__device__ inline void RunOutput(Block& b) {
  constexpr SharedLayout kShared{SharedOf(Role::kOutput, kTiles)};
  const auto partials = [&](uint32_t i) {
    return Partials<kTiles, 1>{reinterpret_cast<float4*>(b.shared + kShared.partials) +
                               i * kWarps * kTiles * 32};
  };
  const auto statistics = [&](uint32_t i) {
    return Statistics<kTiles>{reinterpret_cast<float2*>(b.shared + kShared.statistics) +
                              i * kWarps * kTiles * kTile};
  };
  const uint32_t barriers = SharedAddress(b.shared + kShared.barriers);
  // The first warps finish sums: 8 columns of one token tile each.
  const bool finishes = b.warp < 2 * kTiles;
  const uint32_t tile = b.warp / 2, half = b.warp % 2;
  const uint32_t columns = b.assignment.part * kOutputColumns + 8 * half;
  float2 raw = make_float2(0.0f, 0.0f);
#pragma unroll 1
  for (uint32_t stage = 0; stage < b.assignment.Stages(); ++stage) {
    const uint32_t layer = b.assignment.Layer(stage);
    if (layer >= b.a.layers) break;
    const std::byte* weights_at = b.shared + stage * StageBytes(Role::kOutput);
    const ResidualColumn* constants =
        reinterpret_cast<const ResidualColumn*>(weights_at + StageConstantsAt(Role::kOutput)) +
        8 * half + b.g;
    uint32_t out[kOutProduct.steps][4], down[kDownProduct.steps][4];
    WaitForWeights(b, barriers + 8 * stage);
    LoadFragments(b, weights_at, out);
    LoadFragments(b, weights_at + kOutProduct.Fragments() * kFragmentBytes, down);
    uint4 x[kTiles];
    Receive<kTiles, 1>(b, Exchange::kX, layer, b.warp, x);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) statistics(0).Store(b, t, x[t]);
    if (finishes && stage == 0) raw = ReceiveOwnColumn<kTiles>(b, layer, columns + b.g, tile);

    Receive<kTiles, 1>(b, Exchange::kContext, layer, b.warp, x);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      partials(0).Store(b, 0, t, Multiply<kTiles, kOutProduct.steps>(out, 0, x, t));
    }
    __syncthreads();
    if (finishes) {
      const float2 v = partials(0).Sum(b, 0, tile, half);
      const float4 s = statistics(0).Get(b, tile);
      raw.x = AddResidual(v.x, raw.x, s.x, s.y, constants[0]);
      raw.y = AddResidual(v.y, raw.y, s.z, s.w, constants[0]);
      SendColumns<kTiles>(b, Exchange::kY, layer, columns, tile, raw);
    }

    Receive<kTiles, 1>(b, Exchange::kY, layer, b.warp, x);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) statistics(1).Store(b, t, x[t]);
    uint4 inner[kDownProduct.steps / 2 * kTiles];
    Receive<kTiles, kDownProduct.steps / 2>(b, Exchange::kInner, layer,
                                            b.warp * kDownProduct.steps / 2, inner);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      partials(1).Store(b, 0, t, Multiply<kTiles, kDownProduct.steps>(down, 0, inner, t));
    }
    __syncthreads();
    if (finishes) {
      const float2 v = partials(1).Sum(b, 0, tile, half);
      const float4 s = statistics(1).Get(b, tile);
      raw.x = AddResidual(v.x, raw.x, s.x, s.y, constants[kOutputColumns]);
      raw.y = AddResidual(v.y, raw.y, s.z, s.w, constants[kOutputColumns]);
      SendColumns<kTiles>(b, Exchange::kX, layer + 1, columns, tile, raw);
    }
  }
}

// --- Up projection -------------------------------------------------------------------------------
template <uint32_t kTiles>
__device__ inline void RunUp(Block& b) {
  constexpr SharedLayout kShared{SharedOf(Role::kUp, kTiles)};
  constexpr uint32_t kRowTiles{kUpProduct.tiles};
  const uint32_t barriers = SharedAddress(b.shared + kShared.barriers);
  const uint32_t task_tile = b.warp / 4, row_tile = b.warp % 4 / 2, half = b.warp % 2;
#pragma unroll 1
  for (uint32_t layer = 0; layer < b.a.layers; ++layer) {
    // A buffer is written again two layers later, after a barrier behind its last reader.
    const uint32_t buffer = layer % 2;
    const Partials<kTiles, kRowTiles> partials{
        reinterpret_cast<float4*>(b.shared + kShared.partials) +
        buffer * kWarps * kRowTiles * kTiles * 32};
    const Statistics<kTiles> statistics{reinterpret_cast<float2*>(b.shared + kShared.statistics) +
                                        buffer * kWarps * kTiles * kTile};
    const std::byte* weights_at = b.shared + layer * StageBytes(Role::kUp);
    uint32_t weights[kRowTiles * kUpProduct.steps][4];
    WaitForWeights(b, barriers + 8 * layer);
    LoadFragments(b, weights_at, weights);
    Unset<kTiles>(b, Exchange::kInner, layer, b.assignment.part);
    uint4 x[kTiles];
    Receive<kTiles, 1>(b, Exchange::kY, layer, b.warp, x);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      statistics.Store(b, t, x[t]);
#pragma unroll
      for (uint32_t r = 0; r < kRowTiles; ++r) {
        partials.Store(b, r, t, Multiply<kTiles, 2>(weights, 2 * r, x, t));
      }
    }
    __syncthreads();
    if (task_tile >= kTiles) continue;
    const uint32_t row = 16 * row_tile + 8 * half;
    const float2 sum_bias =
        reinterpret_cast<const float2*>(weights_at + StageConstantsAt(Role::kUp))[row + b.g];
    const float2 v = partials.Sum(b, row_tile, task_tile, half);
    const float4 s = statistics.Get(b, task_tile);
    SendColumns<kTiles>(
        b, Exchange::kInner, layer, b.assignment.part * kUpColumns + row, task_tile,
        make_float2(Gelu(Folded(v.x, s.x, s.y, sum_bias)), Gelu(Folded(v.y, s.z, s.w, sum_bias))));
  }
}

// Unsets what the output blocks send: 16 columns of kY and of the next layer's kX.
template <uint32_t kTiles>
__device__ inline void UnsetOutput(const Block& b) {
  for (uint32_t stage = 0; stage < b.assignment.Stages(); ++stage) {
    const uint32_t layer = b.assignment.Layer(stage), column = b.assignment.part * kOutputColumns;
    if (layer >= b.a.layers) break;
    for (uint32_t i = threadIdx.x; i < kTiles * 64; i += kThreads) {
      const uint32_t tile = i / 64, word = i % 64 / 2 * 4 + column % kSlice / 8 + i % 2;
      for (const Exchange exchange : {Exchange::kY, Exchange::kX}) {
        const uint32_t at_layer = layer + (exchange == Exchange::kX);
        StoreRelaxed(
            b.a.other + ExchangeAt(exchange, at_layer, column / kSlice, tile, kTiles) + word,
            kUnset);
      }
    }
  }
}

template <uint32_t kTiles>
__global__ void __launch_bounds__(kThreads, 1) Layers(GridArguments a) {
  extern __shared__ __align__(1024) std::byte shared_bytes[];
  const uint32_t lane = threadIdx.x % 32;
  Block b{.a = a,
          .assignment = AssignmentOf(blockIdx.x),
          .shared = shared_bytes,
          .warp = threadIdx.x / 32,
          .lane = lane,
          .g = lane / 4,
          .q = lane % 4,
          .patience = kPatience};
  const Role role = b.assignment.role;
  const uint32_t barriers = SharedAddress(shared_bytes) + SharedOf(role, kTiles).barriers;
  if (threadIdx.x == 0) {
    for (uint32_t stage = 0; stage < kMostLayers; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * stage) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    StartWeights(b, barriers);
  }
  __syncthreads();
  if (role == Role::kAttention) {
    RunAttention<kTiles>(b);
  } else if (role == Role::kOutput) {
    UnsetOutput<kTiles>(b);
    RunOutput<kTiles>(b);
  } else {
    RunUp<kTiles>(b);
  }
}

}  // namespace

cudaError_t LaunchLayers(const GridArguments& arguments, cudaStream_t stream) {
  const bool one = arguments.tokens <= kTile;
  return Launch(one ? Layers<1> : Layers<2>,
                {.grid = dim3(kBlocks),
                 .threads = kThreads,
                 .shared_bytes = SharedBytes(one ? 1 : 2),
                 .cooperative = true},
                stream, arguments);
}

cudaError_t PrepareLayers(int device) {
  int blocks = 0, shared_bytes = 0, cooperative = 0, major = 0;
  cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaError_t status = cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device);
  if (status != cudaSuccess) return status;
  const uint32_t wanted = SharedBytes(kMostTiles);
  if (major < 9 || cooperative == 0 || static_cast<uint32_t>(blocks) < kBlocks ||
      static_cast<uint32_t>(shared_bytes) < wanted) {
    return cudaErrorNotSupported;
  }
  status = cudaFuncSetAttribute(Layers<1>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(SharedBytes(1)));
  if (status != cudaSuccess) return status;
  return cudaFuncSetAttribute(Layers<2>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(wanted));
}

}  // namespace sprat::gpu::grid
