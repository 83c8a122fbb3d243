// Hashes the tokens and brings their table rows, as bf16, into the operand of a matrix product.
// (Gathering straight into the shared memory of the product reads every row once for each tile of
// columns, at random, and was no faster at any size.)
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

constexpr uint32_t kGatherTokens{4};  // of a block
constexpr uint32_t kGatherWarps{8};

// The rows of a token side by side, in panels of `capacity` rows. A warp takes a row at a time, for
// E4M3 two.
template <bool kFp8>
__global__ void __launch_bounds__(kGatherWarps * 32)
    NgramGather(const __grid_constant__ NgramModelView model,
                const __grid_constant__ NgramRequest request, uint32_t capacity) {
  constexpr uint32_t kLanes{kFp8 ? 16 : 32};  // of a row: 16 bytes of it each
  constexpr uint32_t kRowsAtOnce{kGatherWarps * 32 / kLanes}, kAhead{6};
  __shared__ const std::byte* from[kGatherTokens * kNgramMostTables];
  __shared__ float scale[kGatherTokens * kNgramMostTables];
  const NgramPlan& plan = model.plan;
  const uint32_t token0 = blockIdx.x * kGatherTokens;
  const uint32_t rows = min(kGatherTokens, request.tokens - token0) * plan.tables;
  LetNextStart();
  WaitForPrevious();
  if (threadIdx.x < rows) {
    const NgramTableEntry& entry = model.entries[threadIdx.x % plan.tables];
    const uint32_t id =
        TableRow(plan, entry, LoadWindow(model, request, token0 + threadIdx.x / plan.tables));
    from[threadIdx.x] = entry.rows + size_t{id} * plan.width * (kFp8 ? 1 : 2);
    if (kFp8) {
      scale[threadIdx.x] = entry.scales != nullptr ? __ldg(entry.scales + id) : entry.scale;
    }
  }
  __syncthreads();
  constexpr uint32_t kValues{kFp8 ? 16 : 8};  // in 16 bytes
  const uint32_t lane = threadIdx.x % kLanes;
  uint16_t* to = request.workspace;
  for (uint32_t row0 = threadIdx.x / kLanes; row0 < rows; row0 += kRowsAtOnce * kAhead) {
    for (uint32_t chunk = lane; chunk < plan.width / kValues; chunk += kLanes) {
      uint4 v[kAhead];
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t row = row0 + j * kRowsAtOnce;
        if (row < rows) v[j] = __ldg(reinterpret_cast<const uint4*>(from[row]) + chunk);
      }
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t row = row0 + j * kRowsAtOnce;
        if (row >= rows) continue;
        const uint32_t t = token0 + row / plan.tables;
        const uint32_t column = row % plan.tables * plan.width + chunk * kValues;
        const auto place = [&](uint32_t k) {
          return reinterpret_cast<uint4*>(to + PanelOffset(t, k, capacity));
        };
        if constexpr (kFp8) {
          *place(column) = DecodeE4m3(make_uint2(v[j].x, v[j].y), scale[row]);
          *place(column + 8) = DecodeE4m3(make_uint2(v[j].z, v[j].w), scale[row]);
        } else {
          *place(column) = v[j];
        }
      }
    }
  }
}
static_assert(kGatherTokens * kNgramMostTables <= kGatherWarps * 32);

template <bool kFp8>
cudaError_t LaunchEncoding(const NgramModelView& model, const NgramRequest& request, bool overlap,
                           cudaStream_t stream) {
  const dim3 grid((request.tokens + kGatherTokens - 1) / kGatherTokens);
  return Launch(NgramGather<kFp8>, {.grid = grid, .threads = kGatherWarps * 32, .overlap = overlap},
                stream, model, request, BatchCapacity(request.tokens));
}

}  // namespace

cudaError_t LaunchNgramGather(const NgramModelView& model, const NgramRequest& request,
                              bool overlap, cudaStream_t stream) {
  return model.fp8 ? LaunchEncoding<true>(model, request, overlap, stream)
                   : LaunchEncoding<false>(model, request, overlap, stream);
}

}  // namespace sprat::gpu
