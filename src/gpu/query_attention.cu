// One head of a short query in one block: LayerNorm, query, key and value, softmax.
#include "gpu/attention.h"
#include "gpu/attention_tools.cuh"
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"

namespace sprat::gpu {
namespace {

struct QueryArguments {
  const uint16_t* weights;  // panels of kQkv
  const float* bias;
  const float* norm;  // gamma, beta of the LayerNorm on the way in
  const float* sum;
  float* state;
  uint16_t* context;  // panels
  const std::byte* request;
  uint32_t rows;  // capacity
  float eps;
  bool early;
};

// A warp for each 8 of the head's 96 columns: query, key, value.
constexpr uint32_t kColumns{3 * kHead};
constexpr uint32_t kWarps{kColumns / 8};
constexpr uint32_t kQueryThreads{32 * kWarps};
constexpr uint32_t kTokens{kQueryTokens};
static_assert(kTokens == 16, "one tile of the mma, so one warp has all queries");

// Shared memory: weights, normalised tokens (both panels), then query, key and value rows.
constexpr uint32_t kTokensAt{2 * kColumns * kHidden};
constexpr uint32_t kHeadAt{kTokensAt + 2 * kTokens * kHidden};
constexpr uint32_t kQueryBytes{kHeadAt + 3 * 2 * kTokens * kHead};

// The head's rows of the three parts, one below the other.
__device__ inline void CopyWeights(const QueryArguments& a, uint32_t head, uint32_t to) {
  constexpr uint32_t kPartChunks{kHead * kPanel / 8};  // of 16 bytes, in one panel
  constexpr uint32_t kChunks{3 * kPartChunks};
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < kHidden / kPanel * kChunks; i += kQueryThreads) {
    const uint32_t panel = i / kChunks, part = i % kChunks / kPartChunks, chunk = i % kPartChunks;
    const size_t row = size_t{panel} * 3 * kHidden + part * kHidden + head * kHead;
    CopyAsync(to + 16 * i, a.weights + row * kPanel + 8 * chunk);
  }
}

// LayerNorm of all tokens into panels; the blocks share the work of writing them to `state`.
__device__ inline void Normalise(const QueryArguments& a, const NormParameters& parameters,
                                 uint16_t* tokens) {
  const uint32_t row = threadIdx.x / kNormLanes, lane = threadIdx.x % kNormLanes;
  if (row >= kTokens) return;  // whole warps
  float2 v[kNormPairs];
  LoadNormLane(v, a.sum + size_t{row} * kHidden, lane);
  NormaliseLane(v, parameters, a.eps);
  const bool keep = row % gridDim.x == blockIdx.x;
#pragma unroll
  for (int j = 0; j < kNormPairs; ++j) {
    const uint32_t column = NormColumn(lane, j);
    *reinterpret_cast<uint32_t*>(tokens + PanelOffset(row, column, kTokens)) =
        PackHalves(v[j].x, v[j].y);
    if (keep) *reinterpret_cast<float2*>(a.state + StateOffset(row, column)) = v[j];
  }
}

// This warp's 8 columns for all tokens, in the order of additions of plan.h.
__device__ inline void Multiply(uint32_t weights, uint32_t tokens, float2 bias, float (&sums)[4]) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  sums[0] = sums[2] = bias.x;
  sums[1] = sums[3] = bias.y;
#pragma unroll
  for (uint32_t k = 0; k < kHidden; k += 2 * kMmaDepth) {
    uint32_t w[4];
    LoadMatrices(w, weights + 2 * PanelOffset(8 * warp + lane % 8, k + lane / 8 * 8, kColumns));
#pragma unroll
    for (uint32_t step = 0; step < 2; ++step) {
      uint32_t rows[4];
      LoadMatrices(
          rows, tokens + 2 * PanelOffset(lane % 16, k + step * kMmaDepth + lane / 16 * 8, kTokens));
      Mma(sums, rows, w[2 * step], w[2 * step + 1]);
    }
  }
}

__global__ void __launch_bounds__(kQueryThreads, 1) QueryAttention(QueryArguments a) {
  extern __shared__ __align__(1024) std::byte shared[];
  LetNextStart(a.early);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.x;
  const uint32_t weights = SharedAddress(shared);
  std::byte* rows = shared + kHeadAt;
  constexpr uint32_t kPartBytes{2 * kTokens * kHead};
  CopyWeights(a, head, weights);
  CommitCopies();
  const uint32_t column = warp / 4 * kHidden + head * kHead + warp % 4 * 8 + lane % 4 * 2;
  const float2 bias = __ldg(reinterpret_cast<const float2*>(a.bias + column));
  NormParameters parameters;
  LoadNormLane(parameters, a.norm, threadIdx.x % kNormLanes);
  WaitForPrevious();
  LetNextStart(!a.early);
  const uint32_t length = __ldcg(&reinterpret_cast<const RequestHeader*>(a.request)->tokens);
  Normalise(a, parameters, reinterpret_cast<uint16_t*>(shared + kTokensAt));
  WaitForCopies<0>();
  __syncthreads();

  float sums[4];
  Multiply(weights, weights + kTokensAt, bias, sums);
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t row = 8 * half + lane / 4;
    std::byte* to = rows + warp / 4 * kPartBytes + HeadOffset(row, warp % 4) + 4 * (lane % 4);
    *reinterpret_cast<uint32_t*>(to) = PackHalves(sums[2 * half], sums[2 * half + 1]);
  }
  __syncthreads();

  if (warp != 0) return;
  const uint32_t row = lane / 4;
  uint32_t query[2][4];
#pragma unroll
  for (uint32_t part = 0; part < 8; ++part) {  // mma step, depth half, row half
    query[part / 4][part % 4] = *reinterpret_cast<const uint32_t*>(
        rows + HeadOffset(row + part % 2 * 8, part / 2) + 4 * (lane % 4));
  }
  const uint32_t keys = SharedAddress(rows) + kPartBytes, values = keys + kPartBytes;
  Running running;
  AddKeys<false>(query, keys, values, length, running);
  StoreContext(running, a.context, a.rows, 0, row, length, head * kHead);
}
static_assert(kTokens < kKeyStep, "all keys are added in one step, never a whole one");

}  // namespace

cudaError_t LaunchQueryAttention(const Step& step, const LaunchContext& c) {
  const Buffers& b = c.buffers;
  const std::byte* weights = b.weights + c.weights.MatrixAt(step.layer, Matrix::kQkv);
  const QueryArguments arguments{
      .weights = reinterpret_cast<const uint16_t*>(weights),
      .bias =
          reinterpret_cast<const float*>(b.weights + c.weights.BiasAt(step.layer, Matrix::kQkv)),
      .norm = reinterpret_cast<const float*>(b.weights + c.weights.NormAt(step.norm)),
      .sum = b.sum,
      .state = b.state,
      .context = b.context,
      .request = b.request,
      .rows = b.rows,
      .eps = c.eps,
      .early = c.early};
  return Launch(QueryAttention,
                {.grid = dim3(kHeads),
                 .threads = kQueryThreads,
                 .shared_bytes = kQueryBytes,
                 .overlap = c.overlap},
                c.stream, arguments);
}

cudaError_t PrepareQueryAttention() {
  return cudaFuncSetAttribute(QueryAttention, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              int{kQueryBytes});
}

}  // namespace sprat::gpu
