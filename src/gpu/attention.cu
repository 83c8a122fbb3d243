#include "gpu/attention.h"

#include "gpu/attention_tools.cuh"
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

// Keys or values of one head, kRows at a time; rows past the sequence become zero. A thread copies
// a chunk of two rows kRows / 2 apart: both lie alike in panels and in shared memory, so that one
// place, found once, gives all others.
template <uint32_t kRows>
struct HeadCopy {
  static constexpr uint32_t kStep{kRows / 2};
  static_assert(kStep % 8 == 0, "the permutations of chunks repeat every eight rows");

  const uint16_t* from;  // keys of this thread's first row
  size_t to_values;      // from there, elements
  uint32_t row, place;   // its row; its place in a buffer

  __device__ HeadCopy(const AttentionArguments& a, uint32_t first, uint32_t column)
      : from(a.qkv +
             PanelOffset(first + threadIdx.x / 4, kHidden + column + threadIdx.x % 4 * 8, a.rows)),
        to_values(size_t{kHidden} * a.rows),
        row(threadIdx.x / 4),
        place(HeadOffset(threadIdx.x / 4, threadIdx.x % 4)) {}

  // Rows first .. first + kRows of a sequence of `length` to the two buffers.
  __device__ void Fetch(uint32_t first, uint32_t length, uint32_t keys, uint32_t values) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const bool wanted = first + row + i * kStep < length;
      const uint16_t* key = from + size_t{first + i * kStep} * kPanel;
      CopyAsync(keys + place + HeadOffset(i * kStep, 0), key, wanted);
      CopyAsync(values + place + HeadOffset(i * kStep, 0), key + to_values, wanted);
    }
    CommitCopies();
  }
};

// Block x has item x / kHeads and head x % kHeads; its warps have 16 queries each, and keys come
// kRows at a time.
template <uint32_t kRows, int kBlocksAtOnce>
__global__ void __launch_bounds__(2 * kRows, kBlocksAtOnce) Attention(AttentionArguments a) {
  __shared__ __align__(128) uint16_t shared[2][2][kRows * kHead];  // buffer, keys or values
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
  const uint32_t blocks = (item.length + kRows - 1) / kRows;
  const HeadCopy<kRows> copy(a, item.first, column);
  const auto fetch = [&](uint32_t block) {
    copy.Fetch(block * kRows, item.length, SharedAddress(shared[block % 2][0]),
               SharedAddress(shared[block % 2][1]));
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
    for (uint32_t step = 0; busy && step < kRows; step += kKeyStep) {
      const uint32_t first = block * kRows + step;
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
  StoreContext(running, a.context, a.rows, item.first, row, item.length, column);
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
  const auto launch = [&](void (*kernel)(AttentionArguments), unsigned threads) {
    return Launch(
        kernel,
        {.grid = dim3(context.items * kHeads), .threads = threads, .overlap = context.overlap},
        context.stream, arguments);
  };
  // Many blocks a multiprocessor hide each other's latency; a few run faster with more registers.
  if (context.items * kHeads <= kManyBlocks)
    return launch(Attention<kQueryRows, 1>, 2 * kQueryRows);
  if (context.longest > kShortRows) return launch(Attention<kQueryRows, 5>, 2 * kQueryRows);
  return launch(Attention<kShortRows, 10>, 2 * kShortRows);
}

}  // namespace sprat::gpu
