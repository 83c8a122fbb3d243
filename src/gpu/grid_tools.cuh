// What the roles of the single launch share: exchanges, weights, products, statistics of tokens.
#ifndef SPRAT_GPU_GRID_TOOLS_CUH_
#define SPRAT_GPU_GRID_TOOLS_CUH_

#include "gpu/grid_layers.h"
#include "gpu/grid_plan.h"
#include "gpu/kernel_tools.cuh"

namespace sprat::gpu::grid {

inline constexpr uint32_t kPatience{2'000'000};  // tries of all waits of a thread together

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
#pragma unroll
  for (uint32_t i = 0; i < kCount * kTiles; ++i) x[i] = LoadRelaxed(at + i * kSliceWords);
#pragma unroll 1
  for (;;) {
    bool unset = false;
#pragma unroll
    for (uint32_t i = 0; i < kCount * kTiles; ++i) unset |= Unset(x[i]);
    if (!unset || b.patience == 0) break;
    if (--b.patience == 0) b.Expired();
#pragma unroll
    for (uint32_t i = 0; i < kCount * kTiles; ++i) {
      if (Unset(x[i])) x[i] = LoadRelaxed(at + i * kSliceWords);
    }
  }
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
// Partial sums: [warp][tile of rows][tile of tokens][half][lane]. Lane 4g + q has row 8 * half + g,
// tokens 2q and 2q + 1.
template <uint32_t kTiles, uint32_t kRowTiles, uint32_t kSplits>
struct Partials {
  float2* at;

  __device__ void Store(const Block& b, uint32_t row_tile, uint32_t tile, float4 v) const {
    float2* to = at + ((b.warp * kRowTiles + row_tile) * kTiles + tile) * 64 + b.lane;
    to[0] = make_float2(v.x, v.y);
    to[32] = make_float2(v.z, v.w);
  }
  __device__ float2 Sum(const Block& b, uint32_t first_warp, uint32_t row_tile, uint32_t tile,
                        uint32_t half) const {
    float x[kSplits], y[kSplits];
#pragma unroll
    for (uint32_t w = 0; w < kSplits; ++w) {
      const float2 v =
          at[(((first_warp + w) * kRowTiles + row_tile) * kTiles + tile) * 64 + 32 * half + b.lane];
      x[w] = v.x;
      y[w] = v.y;
    }
    return make_float2(SumPartials(x), SumPartials(y));
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
  // {mean, scale} of tokens 2q and 2q + 1 of a tile. Lane 4g + q adds every fourth slice's share of
  // token g, from slice q on: SumPartials over a quad.
  __device__ float4 Get(const Block& b, uint32_t tile) const {
    const float2* of_token = at + tile * kTile + b.g;
    float2 v = of_token[b.q * kTiles * kTile];
#pragma unroll
    for (uint32_t slice = 4; slice < kWarps; slice += 4) {
      const float2 more = of_token[(b.q + slice) * kTiles * kTile];
      v.x += more.x;
      v.y += more.y;
    }
#pragma unroll
    for (uint32_t mask = 1; mask <= 2; mask *= 2) {
      v.x += __shfl_xor_sync(~0u, v.x, mask);
      v.y += __shfl_xor_sync(~0u, v.y, mask);
    }
    const float mean = v.x * (1.0f / kHidden);
    const float variance = fmaf(-mean, mean, v.y * (1.0f / kHidden));
    const float scale = ReciprocalRoot(fmaxf(variance, 0.0f) + b.a.eps);
    return make_float4(__shfl_sync(~0u, mean, 8 * b.q), __shfl_sync(~0u, scale, 8 * b.q),
                       __shfl_sync(~0u, mean, 8 * b.q + 4), __shfl_sync(~0u, scale, 8 * b.q + 4));
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

}  // namespace sprat::gpu::grid

#endif  // SPRAT_GPU_GRID_TOOLS_CUH_
