#include "gpu/attention.h"

#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"

namespace sprat::gpu {
namespace {

struct AttentionArguments {
  const std::byte* request;
  const uint16_t* qkv;  // panels
  uint16_t* context;    // panels
  uint32_t rows;        // capacity
  bool early;           // LaunchContext
  bool alone;           // one sequence: its item is known without reading it
};

constexpr float kScoreScale{0.17677669529663687f * 1.4426950408889634f};  // log2(e) / sqrt(32)
static_assert(kHead == 32, "the scale above, and two 16-deep mma steps a score");

// A key or value row of one head is 64 bytes, four chunks of 16. Two rows share 128 bytes; chunks
// are permuted so that eight rows of one chunk touch all banks.
__device__ inline uint32_t HeadOffset(uint32_t row, uint32_t chunk) {
  return 64 * row + 16 * (chunk ^ (row / 2 % 4));
}

// kKeyRows keys (or values) of one head; rows past the sequence become zero.
__device__ inline void CopyKeys(const AttentionArguments& a, const AttentionItem& item,
                                uint32_t column, uint32_t first, uint32_t to) {
#pragma unroll
  for (uint32_t i = threadIdx.x; i < kKeyRows * 4; i += kAttentionThreads) {
    const uint32_t row = i / 4, chunk = i % 4;
    const bool wanted = first + row < item.length;
    const uint32_t token = item.first + (wanted ? first + row : 0);
    CopyAsync(to + HeadOffset(row, chunk), a.qkv + PanelOffset(token, column + 8 * chunk, a.rows),
              wanted);
  }
}

// words[d] of lane q of a quad goes to words[q] of lane d.
__device__ inline void TransposeQuad(uint32_t (&words)[4]) {
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x % 4 >= 2;
#pragma unroll
  for (uint32_t d = 0; d < 4; d += 2) {  // 2x2 blocks inside
    const uint32_t other = __shfl_xor_sync(~0u, odd ? words[d] : words[d + 1], 1);
    (odd ? words[d] : words[d + 1]) = other;
  }
#pragma unroll
  for (uint32_t d = 0; d < 2; ++d) {  // the two blocks off the diagonal
    const uint32_t other = __shfl_xor_sync(~0u, upper ? words[d] : words[d + 2], 2);
    (upper ? words[d] : words[d + 2]) = other;
  }
}
static_assert(kHead / 8 == 4, "a row of a head is four chunks: one a lane of a quad");

// What a warp carries over the keys for its 16 queries. Lane 4g + q: rows g and g + 8.
struct Running {
  float sums[kHead / 8][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY};
  float total[2] = {0.0f, 0.0f};  // this lane's part
};

// Adds kKeyStep keys, of which `valid` count: all of them if kWhole. Whole tiles that do not count
// are left out, which changes no bit: their weights would be zero.
template <bool kWhole>
__device__ inline void AddKeys(const uint32_t (&query)[2][4], uint32_t keys, uint32_t values,
                               uint32_t valid, Running& r) {
  const uint32_t lane = threadIdx.x % 32;
  float scores[kKeyStep / 8][4] = {};
  float maximum[2] = {r.maximum[0], r.maximum[1]};
#pragma unroll
  for (uint32_t n = 0; n < kKeyStep / 8; ++n) {
    if (!kWhole && 8 * n >= valid) break;
    uint32_t b[4];
    LoadMatrices(b, keys + HeadOffset(8 * n + lane % 8, lane / 8));
    Mma(scores[n], query[0], b[0], b[1]);
    Mma(scores[n], query[1], b[2], b[3]);
  }
#pragma unroll
  for (uint32_t n = 0; n < kKeyStep / 8; ++n) {
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      if (!kWhole && 8 * n + lane % 4 * 2 + e % 2 >= valid) scores[n][e] = -INFINITY;
      maximum[e / 2] = fmaxf(maximum[e / 2], scores[n][e]);
    }
  }
  float shift[2];
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(~0u, maximum[half], 1));
    maximum[half] = fmaxf(maximum[half], __shfl_xor_sync(~0u, maximum[half], 2));
    shift[half] = __fmul_rn(maximum[half], -kScoreScale);
    const float shrink = Exp2(__fmaf_rn(r.maximum[half], kScoreScale, shift[half]));
    r.maximum[half] = maximum[half];
    r.total[half] = __fmul_rn(r.total[half], shrink);
#pragma unroll
    for (uint32_t d = 0; d < kHead / 8; ++d) {
      r.sums[d][2 * half] = __fmul_rn(r.sums[d][2 * half], shrink);
      r.sums[d][2 * half + 1] = __fmul_rn(r.sums[d][2 * half + 1], shrink);
    }
  }
#pragma unroll
  for (uint32_t k = 0; k < kKeyStep / 16; ++k) {  // 16 keys
    if (!kWhole && 16 * k >= valid) break;
    uint32_t p[4];
#pragma unroll
    for (uint32_t part = 0; part < 4; ++part) {  // keys 0-7 rows g, g + 8; keys 8-15 the same
      const uint32_t half = part % 2, n = 2 * k + part / 2;
      const float x = Exp2(__fmaf_rn(scores[n][2 * half], kScoreScale, shift[half]));
      const float y = Exp2(__fmaf_rn(scores[n][2 * half + 1], kScoreScale, shift[half]));
      r.total[half] = __fadd_rn(r.total[half], __fadd_rn(x, y));
      p[part] = PackHalves(x, y);
    }
#pragma unroll
    for (uint32_t d = 0; d < kHead / 16; ++d) {
      uint32_t b[4];
      LoadMatricesTransposed(b, values + HeadOffset(16 * k + lane % 16, 2 * d + lane / 16));
      Mma(r.sums[2 * d], p, b[0], b[1]);
      Mma(r.sums[2 * d + 1], p, b[2], b[3]);
    }
  }
}

// Block x has item x / kHeads and head x % kHeads; its warps have 16 queries each.
template <int kBlocksAtOnce>
__global__ void __launch_bounds__(kAttentionThreads, kBlocksAtOnce)
    Attention(AttentionArguments a) {
  __shared__ __align__(128) uint16_t shared[2][2][kKeyRows * kHead];  // buffer, keys or values
  LetNextStart(a.early);
  WaitForPrevious();
  LetNextStart(!a.early);
  const RequestHeader& header = *reinterpret_cast<const RequestHeader*>(a.request);
  const uint32_t index = blockIdx.x / kHeads;
  AttentionItem item{0, __ldcg(&header.tokens), index * kQueryRows, 0};
  if (a.alone) {
    if (item.query >= item.length) return;
  } else {
    const uint32_t items = __ldcg(&header.items);
    const uint4 words =
        __ldcg(reinterpret_cast<const uint4*>(a.request + RequestLayout{}.ItemsAt()) + index);
    if (index >= items) return;
    item = {words.x, words.y, words.z, 0};
  }
  const uint32_t column = blockIdx.x % kHeads * kHead;
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t blocks = (item.length + kKeyRows - 1) / kKeyRows;
  const auto fetch = [&](uint32_t block) {
    CopyKeys(a, item, kHidden + column, block * kKeyRows, SharedAddress(shared[block % 2][0]));
    CopyKeys(a, item, 2 * kHidden + column, block * kKeyRows, SharedAddress(shared[block % 2][1]));
    CommitCopies();
  };
  fetch(0);

  const uint32_t row = item.query + 16 * warp + lane / 4;  // and row + 8, in the sequence
  uint32_t query[2][4];
#pragma unroll
  for (uint32_t part = 0; part < 8; ++part) {  // mma step, depth half, row half
    const uint32_t at = min(row + part % 2 * 8, item.length - 1);
    query[part / 4][part % 4] = __ldcg(reinterpret_cast<const uint32_t*>(
        a.qkv + PanelOffset(item.first + at, column + part / 2 * 8 + lane % 4 * 2, a.rows)));
  }
  Running running;
  const bool busy = item.query + 16 * warp < item.length;
  for (uint32_t block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) {
      fetch(block + 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t step = 0; busy && step < kKeyRows; step += kKeyStep) {
      const uint32_t first = block * kKeyRows + step;
      if (first >= item.length) break;
      const uint32_t keys = SharedAddress(shared[block % 2][0]) + HeadOffset(step, 0);
      const uint32_t values = SharedAddress(shared[block % 2][1]) + HeadOffset(step, 0);
      if (item.length - first >= kKeyStep) {
        AddKeys<true>(query, keys, values, kKeyStep, running);
      } else {
        AddKeys<false>(query, keys, values, item.length - first, running);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    float total = running.total[half];
    total = __fadd_rn(total, __shfl_xor_sync(~0u, total, 1));
    total = __fadd_rn(total, __shfl_xor_sync(~0u, total, 2));
    uint32_t words[kHead / 8];
#pragma unroll
    for (uint32_t d = 0; d < kHead / 8; ++d) {
      words[d] = PackHalves(__fdiv_rn(running.sums[d][2 * half], total),
                            __fdiv_rn(running.sums[d][2 * half + 1], total));
    }
    TransposeQuad(words);  // now lane q of the quad has the 16 bytes of columns 8q ..
    const uint32_t at = row + 8 * half;
    if (at >= item.length) continue;
    *reinterpret_cast<uint4*>(a.context +
                              PanelOffset(item.first + at, column + 8 * (lane % 4), a.rows)) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace

cudaError_t LaunchAttention(const LaunchContext& context) {
  constexpr uint32_t kManyBlocks{1000};
  const AttentionArguments arguments{.request = context.buffers.request,
                                     .qkv = context.buffers.qkv,
                                     .context = context.buffers.context,
                                     .rows = context.buffers.rows,
                                     .early = context.early,
                                     .alone = context.request.sequences == 1};
  // Many blocks a multiprocessor hide each other's latency; a few run faster with more registers.
  void (*const kernel)(AttentionArguments) =
      context.items * kHeads > kManyBlocks ? Attention<5> : Attention<1>;
  return Launch(kernel,
                {.grid = dim3(context.items * kHeads),
                 .threads = kAttentionThreads,
                 .overlap = context.overlap},
                context.stream, arguments);
}

}  // namespace sprat::gpu
