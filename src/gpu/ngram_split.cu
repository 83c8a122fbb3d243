// Some tens or hundreds of tokens in one launch: too many for the query kernel, too few tiles for
// the batch kernel. The sum over k is split: the four blocks of a cluster (of eight: of each of two
// token tiles) have a part each of the same tile of rows times projections.
//
// One warp brings the projections, by bulk copies, in stages of 64 columns of k. The other warps
// hash the tokens of the tile for the tables of the part; then three warps gather their rows, stage
// by stage, by asynchronous copies; E4M3 rows are decoded by two warpgroups of their own, in turn.
// One or two warpgroups multiply. Then each sends to the other blocks the sums of their shares of
// the columns, adds those that it gets in the order of the parts, and stores its share.
#include "gpu/launch.cuh"
#include "gpu/ngram_split_rows.cuh"

namespace sprat::gpu {
namespace {

// --- Products ------------------------------------------------------------------------------------
// A thread's place among those that multiply.
struct MultiplyPlace {
  uint32_t thread;  // of all that multiply
  uint32_t group;   // of 64 rows
  uint32_t peer;    // thread of the group
  uint32_t row;     // its first row in the tile; the second is 8 further
};
template <typename Shape>
__device__ inline MultiplyPlace MultiplyPlaceOf() {
  MultiplyPlace at;
  at.thread = threadIdx.x - Shape::kFirstMultiplier;
  at.group = __shfl_sync(~0u, at.thread / kWarpgroup, 0);
  at.peer = at.thread % kWarpgroup;
  at.row = at.group * 64 + at.peer / 32 * 16 + at.peer % 32 / 4;
  return at;
}

template <typename Shape>
__device__ inline void Multiply(const SplitPlace& place, const MultiplyPlace& at, uint32_t shared,
                                SplitSums<Shape>& sums) {
  constexpr uint32_t kAtOnce{Shape::kStagesAtOnce};
  constexpr uint32_t kProductBytes{Shape::kWeightBytes / Shape::kProducts};
  const uint32_t rows = shared + Shape::kOperands + at.group * 64 * kPanel * 2;
  // The blocks that bring the block's projections need to know when a slot is free.
  const uint32_t weights_empty =
      InBlock(shared + Shape::kWeightsEmpty, place.part + at.peer % Shape::kTiles * kNgramParts);
  Ring<Shape::kFullSlots> full;
  Ring<Shape::kOperandSlots> operands, free_operands;
  Ring<Shape::kWeightSlots> weights, free_weights;
#pragma unroll 1
  for (uint32_t first = 0; first < place.stages; first += kAtOnce) {
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      if (first + i >= place.stages) break;
      WaitBarrier(shared + Shape::kFull + 8 * full.slot, full.phase);
      full.Next();
    }
    if (!Shape::kFp8) PublishShared();  // what cp.async has brought
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t s = first + i;
      if (s >= place.stages) break;
      const uint64_t a = Operand(rows + operands.slot * Shape::kOperandBytes);
      const uint32_t b = shared + weights.slot * Shape::kWeightBytes;
      FenceWgmma();
#pragma unroll
      for (uint32_t step = 0; step < kPanel / kMmaDepth; ++step) {
#pragma unroll
        for (uint32_t n = 0; n < Shape::kProducts; ++n) {
          WgmmaBf16(sums[n], a + step * kNextDepth,
                    Operand(b + n * kProductBytes) + step * kNextDepth);
        }
      }
      CommitWgmma();
      operands.Next();
      weights.Next();
      WaitForWgmma<1>();  // the stage before is read: where someone waits for its slots, say so
      if (s == 0) continue;
      if (at.peer == 0 && s - 1 + Shape::kOperandSlots < place.stages) {
        Arrive(shared + Shape::kOperandsEmpty + 8 * free_operands.slot);
      }
      if (at.peer < Shape::kTiles && s - 1 + Shape::kWeightSlots < place.stages) {
        ArriveThere(weights_empty + 8 * free_weights.slot);
      }
      free_operands.Next();
      free_weights.Next();
    }
  }
  WaitForWgmma<0>();
}

// --- Sums ----------------------------------------------------------------------------------------
// The word rows of the thread's two rows from the block's share of the columns on, where the tile
// has such rows; what is needed of them is brought to the L2.
template <typename Shape>
__device__ inline void FindWords(const SplitArguments& a, const SplitPlace& place,
                                 const MultiplyPlace& at, const uint16_t* (&words)[2]) {
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    words[i] = nullptr;
    if (at.row + 8 * i >= place.rows) continue;
    words[i] = WordRow(a.model, a.request, place.row0 + at.row + 8 * i);
    const uint32_t column = place.column + Shape::ShareBegin(place.part) * 8 + at.peer % 4 * 16;
    if (column < a.model.plan.hidden) {
      asm volatile("prefetch.global.L2 [%0];" ::"l"(words[i] + column));
    }
  }
}

// Sends the sums of the other blocks' shares to them.
template <typename Shape>
__device__ inline void SendSums(const SplitPlace& place, const MultiplyPlace& at, uint32_t shared,
                                const SplitSums<Shape>& sums) {
#pragma unroll
  for (uint32_t share = 0; share < kNgramParts; ++share) {
    if (share == place.part) continue;
    const uint32_t block = place.tile * kNgramParts + share;
    const uint32_t sender = place.part - (place.part > share ? 1 : 0);  // among the other three
    const uint32_t to = InBlock(
        shared + Shape::kReceived + sender * Shape::kMostShare * Shape::kTileBytes + at.thread * 16,
        block);
    const uint32_t barrier = InBlock(shared + Shape::kSumsFull, block);
#pragma unroll
    for (uint32_t j = Shape::ShareBegin(share); j < Shape::ShareBegin(share + 1); ++j) {
      StoreInBlock(to + (j - Shape::ShareBegin(share)) * Shape::kTileBytes, SumsOf<Shape>(sums, j),
                   barrier);
    }
  }
}

// Adds the four parts of the block's share and the word rows.
template <typename Shape>
__device__ inline void Finish(const SplitArguments& a, const SplitPlace& place,
                              const MultiplyPlace& at, uint32_t shared,
                              const uint16_t* const (&words)[2], const SplitSums<Shape>& sums) {
  const NgramPlan& plan = a.model.plan;
  const uint32_t first = Shape::ShareBegin(place.part);
  const auto column_of = [&](uint32_t i) {
    return place.column + (first + i) * 8 + at.peer % 4 * 2;
  };
  uint32_t word[Shape::kMostShare][2];
#pragma unroll
  for (uint32_t i = 0; i < Shape::kMostShare; ++i) {
#pragma unroll
    for (uint32_t row = 0; row < 2; ++row) {
      word[i][row] = 0;
      if (words[row] == nullptr || column_of(i) >= plan.hidden) continue;
      word[i][row] = __ldg(reinterpret_cast<const uint32_t*>(words[row] + column_of(i)));
    }
  }
  WaitBarrier(shared + Shape::kSumsFull, 0);
#pragma unroll
  for (uint32_t share = 0; share < kNgramParts; ++share) {
    if (share != place.part) continue;
#pragma unroll
    for (uint32_t i = 0; i < Shape::ShareBegin(share + 1) - Shape::ShareBegin(share); ++i) {
      const uint32_t j = Shape::ShareBegin(share) + i;
      float4 total = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);  // x + -0 is x for every x
#pragma unroll
      for (uint32_t part = 0; part < kNgramParts; ++part) {
        const uint32_t sender = part - (part > share ? 1 : 0);
        const float4 v =
            part == share
                ? SumsOf<Shape>(sums, j)
                : LoadShared(shared + Shape::kReceived +
                             (sender * Shape::kMostShare + i) * Shape::kTileBytes + at.thread * 16);
        total.x = __fadd_rn(total.x, v.x), total.y = __fadd_rn(total.y, v.y);
        total.z = __fadd_rn(total.z, v.z), total.w = __fadd_rn(total.w, v.w);
      }
      const uint32_t column = column_of(i);
      if (column >= plan.hidden) continue;
      uint16_t* out = a.out + size_t{place.row0 + at.row} * plan.hidden + column;
      if (words[0] != nullptr) {
        *reinterpret_cast<uint32_t*>(out) = WithWordRow(plan, word[i][0], total.x, total.y);
      }
      if (words[1] != nullptr) {
        *reinterpret_cast<uint32_t*>(out + size_t{8} * plan.hidden) =
            WithWordRow(plan, word[i][1], total.z, total.w);
      }
    }
  }
}

template <typename Shape>
__device__ inline void MultiplyAndFinish(const SplitArguments& a, const SplitPlace& place,
                                         uint32_t shared) {
  const MultiplyPlace at = MultiplyPlaceOf<Shape>();
  const uint16_t* words[2];
  FindWords<Shape>(a, place, at, words);
  SplitSums<Shape> sums = {};
  Multiply<Shape>(place, at, shared, sums);
  if constexpr (!Shape::kOwnRoom) SyncCluster();  // all rows are read
  SendSums<Shape>(place, at, shared, sums);
  Finish<Shape>(a, place, at, shared, words, sums);
}

// A block ends only when all that others send to it has come: projections and sums that it waits
// for, and arrivals on barriers that it waits for.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    NgramSplit(const __grid_constant__ SplitArguments a) {
  extern __shared__ __align__(1024) std::byte memory[];
  uint32_t shared = SharedAddress(memory);
  asm volatile("" : "+r"(shared));  // to be kept, not computed again and again
  const SplitPlace place = PlaceOf<Shape>(a);
  const uint32_t warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  const bool brings = threadIdx.x == kGatherThreads;  // the projections
  const uint32_t first_stages = min(place.stages, Shape::kWeightSlots);
  LetNextStart();
  if (brings) InitBarriers<Shape>(place, shared);
  __syncwarp();
  ArriveCluster();
  if (warp == kGatherThreads / 32) {
    if (Shape::kTiles > 1) WaitCluster();  // projections go to other blocks too
    if (brings) BringWeights<Shape>(a, place, shared, 0, first_stages);
    __syncwarp();
    WaitForPrevious();
    if (Shape::kTiles == 1) WaitCluster();
  } else {
    const RowFinder<Shape> finder(a, place);
    WaitForPrevious();
    finder.Find(a, place, shared, memory);
    __syncwarp();
    WaitCluster();
    if constexpr (Shape::kFp8) ArriveAfterCopies(shared + Shape::kScalesFull);
    SyncThreads(1, Shape::kHashThreads);
  }
  if (threadIdx.x < Shape::kFirstMultiplier) {
    if constexpr (Shape::kMoveRegisters) GiveRegisters<48>();
    if (brings) BringWeights<Shape>(a, place, shared, first_stages, place.stages);
    if (warp < kGatherThreads / 32) GatherRows<Shape>(a, place, shared, memory);
    if constexpr (Shape::kFp8) {
      if (warp >= kWarpgroup / 32) DecodeRows<Shape>(a, place, shared, memory);
    }
    __syncwarp();
    if constexpr (!Shape::kOwnRoom) SyncCluster();
  } else {
    if constexpr (Shape::kMoveRegisters) TakeRegisters<168>();
    MultiplyAndFinish<Shape>(a, place, shared);
  }
}

template <typename Shape>
cudaError_t LaunchTiles(const SplitArguments& a, bool overlap, cudaStream_t stream) {
  const cudaError_t allowed =
      cudaFuncSetAttribute(NgramSplit<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(Shape::kBytes));
  if (allowed != cudaSuccess) return allowed;
  const uint32_t columns = (a.model.plan.hidden + Shape::kColumns - 1) / Shape::kColumns;
  constexpr uint32_t kTokens{Shape::kRows * Shape::kTiles};
  return Launch(
      NgramSplit<Shape>,
      {.grid = dim3(columns * Shape::kCluster, (a.request.tokens + kTokens - 1) / kTokens),
       .threads = Shape::kThreads,
       .shared_bytes = Shape::kBytes,
       .cluster = Shape::kCluster,
       .overlap = overlap},
      stream, a);
}

template <typename Small, typename Middle, typename Large>
cudaError_t LaunchBest(const SplitArguments& a, bool overlap, cudaStream_t stream) {
  if (a.request.tokens <= 64) return LaunchTiles<Small>(a, overlap, stream);
  if (a.request.tokens <= 128) return LaunchTiles<Middle>(a, overlap, stream);
  return LaunchTiles<Large>(a, overlap, stream);
}

}  // namespace

cudaError_t LaunchNgramSplit(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream) {
  const SplitArguments a = {model, request, out};
  return model.fp8 ? LaunchBest<SmallSplitE4m3, MiddleSplitE4m3, LargeSplitE4m3>(a, overlap, stream)
                   : LaunchBest<SmallSplit, MiddleSplit, LargeSplit>(a, overlap, stream);
}

}  // namespace sprat::gpu
