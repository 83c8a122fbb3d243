#include "gpu/grid_layers.h"

#include "gpu/grid_tools.cuh"
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"

namespace sprat::gpu::grid {
namespace {

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
  constexpr uint32_t kRowTiles{kQkvProduct.tiles}, kSteps{kQkvProduct.steps};
  constexpr uint32_t kSplits{kQkvProduct.Splits()}, kSlices{kSteps / 2};
  const Partials<kTiles, kRowTiles, kSplits> partials{
      reinterpret_cast<float2*>(b.shared + kShared.partials)};
  const Statistics<kTiles> statistics{reinterpret_cast<float2*>(b.shared + kShared.statistics)};
  uint4* slices = reinterpret_cast<uint4*>(b.shared + kShared.slices);
  uint32_t* operands = reinterpret_cast<uint32_t*>(b.shared + kShared.operands);
  const uint32_t barriers = SharedAddress(b.shared + kShared.barriers);
  // A warp has a quarter of the columns of q, k or v, then 8 of their rows.
  const uint32_t part = b.warp / kSplits, split = b.warp % kSplits;
#pragma unroll 1
  for (uint32_t stage = 0; stage < b.assignment.Stages(); ++stage) {
    const uint32_t layer = b.assignment.Layer(stage);
    if (layer >= b.a.layers) break;
    const std::byte* weights_at = b.shared + stage * StageBytes(Role::kAttention);
    const float2* constants =
        reinterpret_cast<const float2*>(weights_at + StageConstantsAt(Role::kAttention));
    uint32_t weights[kRowTiles * kSteps][4];
    WaitForWeights(b, barriers + 8 * stage);
    LoadFragments(b, weights_at, weights);
    Unset<kTiles>(b, Exchange::kContext, layer, b.assignment.part);
    uint4 x[kTiles];
    Receive<kTiles, 1>(b, Exchange::kX, layer, b.warp, x);
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      slices[(b.warp * kTiles + t) * 32 + b.lane] = x[t];
    }
    __syncthreads();
    uint4 mine[kSlices * kTiles];
#pragma unroll
    for (uint32_t i = 0; i < kSlices * kTiles; ++i) {
      mine[i] = slices[(split * kSlices * kTiles + i) * 32 + b.lane];
    }
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t r = 0; r < kRowTiles; ++r) {
        partials.Store(b, r, t, Multiply<kTiles, kSteps>(weights, kSteps * r, mine, t));
      }
      statistics.Store(b, t, x[t]);
    }
    __syncthreads();
    const float2 sum_bias = constants[b.warp * 8 + b.g];
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      const float2 v = partials.Sum(b, part * kSplits, split / 2, t, split % 2);
      const float4 s = statistics.Get(b, t);
      uint32_t word = PackHalves(Folded(v.x, s.x, s.y, sum_bias), Folded(v.y, s.z, s.w, sum_bias));
      if (part != 2) word = Transpose(word);  // values keep tokens in pairs, the others columns
      operands[((part * kTiles + t) * 4 + split) * 32 + b.lane] = word;
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
    return Partials<kTiles, 1, kWarps>{reinterpret_cast<float2*>(b.shared + kShared.partials) +
                                       i * kWarps * kTiles * 64};
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
      const float2 v = partials(0).Sum(b, 0, 0, tile, half);
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
      const float2 v = partials(1).Sum(b, 0, 0, tile, half);
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
    const Partials<kTiles, kRowTiles, kWarps> partials{
        reinterpret_cast<float2*>(b.shared + kShared.partials) +
        buffer * kWarps * kRowTiles * kTiles * 64};
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
      float4 products[kRowTiles];
#pragma unroll
      for (uint32_t r = 0; r < kRowTiles; ++r) {
        products[r] = Multiply<kTiles, 2>(weights, 2 * r, x, t);
      }
      statistics.Store(b, t, x[t]);  // while the products are on their way
#pragma unroll
      for (uint32_t r = 0; r < kRowTiles; ++r) partials.Store(b, r, t, products[r]);
    }
    __syncthreads();
    if (task_tile >= kTiles) continue;
    const uint32_t row = 16 * row_tile + 8 * half;
    const float2 sum_bias =
        reinterpret_cast<const float2*>(weights_at + StageConstantsAt(Role::kUp))[row + b.g];
    const float2 v = partials.Sum(b, 0, row_tile, task_tile, half);
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
  if (major != 9 || cooperative == 0 || static_cast<uint32_t>(blocks) < kBlocks ||
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
