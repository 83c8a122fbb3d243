// kPool and kNormPool: token rows to the vector of a sequence.
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/row_kernels.h"

namespace sprat::gpu {
namespace {

struct PoolArguments {
  const std::byte* request;
  size_t offsets_at;
  const float* rows_in;  // `sum` before the last LayerNorm, or `state`
  const float* norm;
  float* result;
  Pooling pooling;
  float eps;
  bool early;
};

// The weight of token t of S in the pooled sum, and what the sum is divided by
// (sentence_transformers.models.Pooling).
__device__ inline float TokenWeight(Pooling pooling, uint32_t t, uint32_t length) {
  if (pooling == Pooling::kCls) return t == 0 ? 1.0f : 0.0f;
  if (pooling == Pooling::kLastToken) return t + 1 == length ? 1.0f : 0.0f;
  return pooling == Pooling::kWeightedMean ? static_cast<float>(t + 1) : 1.0f;
}
__device__ inline float Divisor(Pooling pooling, uint32_t length) {
  const float n = static_cast<float>(length);
  if (pooling == Pooling::kMean) return n;
  if (pooling == Pooling::kMeanSqrtLen) return __fsqrt_rn(n);
  return pooling == Pooling::kWeightedMean ? n * (n + 1) / 2 : 1.0f;
}

// Sum over the block's columns in a fixed order; every thread gets it.
__device__ inline float SumOverBlock(float value, float* shared) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    value = __fadd_rn(value, __shfl_xor_sync(~0u, value, mask));
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (uint32_t i = 0; i < kHidden / 32; ++i) sum = __fadd_rn(sum, shared[i]);
  return sum;
}

// What pooling carries over the tokens of one column, added in their order.
struct Pooled {
  Pooling pooling;
  uint32_t length;
  float value;

  __device__ Pooled(Pooling p, uint32_t n)
      : pooling(p), length(n), value(p == Pooling::kMax ? -INFINITY : 0.0f) {}
  __device__ void Add(uint32_t t, float x) {
    value = pooling == Pooling::kMax ? fmaxf(value, x)
                                     : __fmaf_rn(TokenWeight(pooling, t, length), x, value);
  }
};

// Two columns of `state` pooled by one thread, which reads them as they lie: two rows at once, 32
// rows on their way.
__device__ inline float2 PoolState(const PoolArguments& a, uint32_t first, uint32_t length,
                                   uint32_t column) {
  constexpr uint32_t kTileRows{16}, kAtOnce{2};
  Pooled x(a.pooling, length), y(a.pooling, length);
  for (uint32_t row = first / kTileRows * kTileRows; row < first + length;
       row += kAtOnce * kTileRows) {
    float4 v[kAtOnce][kTileRows / 2];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce * kTileRows / 2; ++i) {
      const uint32_t tile = i / (kTileRows / 2), pair = i % (kTileRows / 2);
      if (tile > 0 && row + tile * kTileRows >= first + length) break;
      v[tile][pair] = __ldcg(reinterpret_cast<const float4*>(
          a.rows_in + StateOffset(row + tile * kTileRows + pair, column)));
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce * kTileRows; ++i) {
      const uint32_t t = row + i - first;  // huge for rows before the sequence
      if (t >= length) continue;
      const float4& pair = v[i / kTileRows][i % (kTileRows / 2)];
      const bool lower = i % kTileRows >= kTileRows / 2;
      x.Add(t, lower ? pair.z : pair.x);
      y.Add(t, lower ? pair.w : pair.y);
    }
  }
  return make_float2(x.value, y.value);
}

// A block a sequence, a thread a column.
template <bool kNorm>
__global__ void __launch_bounds__(kHidden) Pool(PoolArguments a) {
  __shared__ float2 statistics[kNorm ? kPositions : 1];     // scale and shift of each token
  __shared__ float2 pooled_pairs[kNorm ? 1 : kHidden / 2];  // of columns
  __shared__ float partial[kHidden / 32];
  LetNextStart(a.early);
  WaitForPrevious();
  LetNextStart(!a.early);
  const RequestHeader& header = *reinterpret_cast<const RequestHeader*>(a.request);
  if (blockIdx.x >= __ldcg(&header.sequences)) return;
  const uint32_t* offsets = reinterpret_cast<const uint32_t*>(a.request + a.offsets_at);
  const uint32_t first = __ldcg(offsets + blockIdx.x);
  const uint32_t length = __ldcg(offsets + blockIdx.x + 1) - first;
  const float* rows = a.rows_in + size_t{first} * kHidden;
  const uint32_t column = threadIdx.x;
  float pooled = 0.0f;
  if (kNorm) {
    const uint32_t lane = threadIdx.x % kNormLanes;
    for (uint32_t t0 = 0; t0 < length; t0 += kHidden / kNormLanes) {  // all threads go round alike
      const uint32_t t = t0 + threadIdx.x / kNormLanes;
      float2 v[kNormPairs];
      LoadNormLane(v, rows + size_t{min(t, length - 1)} * kHidden, lane);
      const float2 scale_shift = NormStatistics(v, a.eps);
      if (lane == 0 && t < length) statistics[t] = scale_shift;
    }
    __syncthreads();
    const float gamma = __ldg(a.norm + column), beta = __ldg(a.norm + kHidden + column);
    Pooled sum(a.pooling, length);
#pragma unroll 8
    for (uint32_t t = 0; t < length; ++t) {
      const float value = __ldcg(rows + size_t{t} * kHidden + column);
      sum.Add(t, Normalised(value, statistics[t], gamma, beta));
    }
    pooled = sum.value;
  } else {
    if (column < kHidden / 2) pooled_pairs[column] = PoolState(a, first, length, 2 * column);
    __syncthreads();
    pooled = column % 2 == 0 ? pooled_pairs[column / 2].x : pooled_pairs[column / 2].y;
  }
  if (a.pooling != Pooling::kMax) pooled = __fdiv_rn(pooled, Divisor(a.pooling, length));
  const bool wanted = column < __ldcg(&header.columns);
  if (__ldcg(&header.normalize) != 0) {
    const float squares = SumOverBlock(wanted ? __fmul_rn(pooled, pooled) : 0.0f, partial);
    pooled = __fdiv_rn(pooled, fmaxf(__fsqrt_rn(squares), 1e-12f));
  }
  if (wanted) a.result[size_t{blockIdx.x} * kHidden + column] = pooled;
}

template <bool kNorm>
cudaError_t LaunchPooling(const Step& step, const LaunchContext& c) {
  const PoolArguments arguments{
      .request = c.buffers.request,
      .offsets_at = c.request.OffsetsAt(),
      .rows_in = kNorm ? c.buffers.sum : c.buffers.state,
      .norm = reinterpret_cast<const float*>(c.buffers.weights + c.weights.NormAt(step.norm)),
      .result = c.buffers.result,
      .pooling = c.pooling,
      .eps = c.eps,
      .early = c.early};
  return Launch(Pool<kNorm>, {.grid = dim3(c.sequences), .threads = kHidden, .overlap = c.overlap},
                c.stream, arguments);
}

}  // namespace

cudaError_t LaunchNormPool(const Step& step, const LaunchContext& context) {
  return LaunchPooling<true>(step, context);
}

cudaError_t LaunchPool(const Step& step, const LaunchContext& context) {
  return LaunchPooling<false>(step, context);
}

}  // namespace sprat::gpu
