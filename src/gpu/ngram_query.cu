// Up to 64 tokens in one launch: ids, gather, projection, word row and scale.
//
// Every warp first asks for its projections, which nothing has to wait for; meanwhile the block
// hashes the tokens and copies the rows to shared memory. A warp multiplies kTokens x kColumns of
// one part of k. Parts 0 and 1 are summed in the first block of the cluster, which sends them to
// the second; that adds parts 2 and 3 and the word rows.
#include "gpu/kernel_tools.cuh"
#include "gpu/launch.cuh"
#include "gpu/ngram_tools.cuh"

namespace sprat::gpu {
namespace {

// How the six warps of a part share kRows x kQueryColumns, in mma tiles of 16 x 8.
template <uint32_t kRows>
struct QueryShape {
  static constexpr uint32_t kWarpRows{kRows == 16 ? 1 : 2};  // warps along the tokens
  static constexpr uint32_t kRowTiles{kRows / 16 / kWarpRows};
  static constexpr uint32_t kWarpColumns{kQueryWarps / kWarpRows};
  static constexpr uint32_t kColumnTiles{kQueryColumns / 8 / kWarpColumns};
  static constexpr uint32_t kDepth{kColumnTiles == 1 ? 12 : 8};  // loads of weights ahead
};

struct RowPlace {
  const std::byte* row;  // nullptr: zeros
  const float* scale;    // of E4M3
};

// Shared memory of NgramPlan::QuerySharedBytes.
struct QueryShared {
  uint32_t row_bytes;
  uint32_t rows;  // address
  uint32_t sums;
  RowPlace* places;
};

__device__ inline QueryShared DivideShared(const NgramPlan& plan, uint32_t tokens,
                                           std::byte* memory) {
  const uint32_t sums = plan.QueryRowsBytes(tokens);
  return {plan.QueryRowBytes(), SharedAddress(memory), SharedAddress(memory) + sums,
          reinterpret_cast<RowPlace*>(memory + sums + tokens * kQueryColumns * 4)};
}

// Finds where the rows of every token in the tables first .. first + tables are.
struct RowFinder {
  NgramStops stops;
  NgramTableEntry entry;  // for the thread's first row

  // What does not depend on the kernel before.
  __device__ RowFinder(const NgramModelView& model, uint32_t first, uint32_t tables)
      : stops(LoadStops(model)), entry(model.entries[first + threadIdx.x % max(tables, 1u)]) {}

  __device__ void Find(const NgramModelView& model, const NgramRequest& request, uint32_t first,
                       uint32_t tables, uint32_t rows, RowPlace* places) {
    const uint32_t row_bytes = model.plan.width * (model.fp8 ? 1 : 2);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < rows * tables; i += kQueryThreads) {
      const uint32_t t = i / tables;
      const NgramTableEntry& in_memory = model.entries[first + i % tables];
      if (i != threadIdx.x) entry = in_memory;
      RowPlace place = {nullptr, nullptr};
      if (t < request.tokens) {
        const uint32_t id = TableRow(model.plan, entry, LoadWindow(model, request, stops, t));
        place.row = entry.rows + size_t{id} * row_bytes;
        place.scale = entry.scales != nullptr ? entry.scales + id : &in_memory.scale;
      }
      places[i] = place;
    }
  }
};

// A warp takes a row at a time; the rows of a token lie side by side.
__device__ inline void GatherBf16(const NgramPlan& plan, const QueryShared& shared, uint32_t tables,
                                  uint32_t rows) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 4
  for (uint32_t i = warp; i < rows * tables; i += kQueryThreads / 32) {
    const std::byte* from = shared.places[i].row;
    const uint32_t to = shared.rows + i / tables * shared.row_bytes + i % tables * plan.width * 2;
    for (uint32_t chunk = lane; chunk < plan.width / 8; chunk += 32) {
      CopyAsync(to + 16 * chunk, from + (from != nullptr ? 16 * chunk : 0), from != nullptr);
    }
  }
  CommitCopies();
  WaitForCopies<0>();
}

// Half a warp takes a row at a time, kAhead rows are under way.
__device__ inline void GatherE4m3(const NgramPlan& plan, const QueryShared& shared, uint32_t tables,
                                  uint32_t rows) {
  constexpr uint32_t kAhead{4}, kHalves{kQueryThreads / 16};
  const uint32_t half = threadIdx.x / 16, lane = threadIdx.x % 16;
  for (uint32_t i0 = half; i0 < rows * tables; i0 += kAhead * kHalves) {
    for (uint32_t chunk = lane; chunk < plan.width / 16; chunk += 16) {
      uint4 codes[kAhead];
      float scale[kAhead];
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t i = i0 + j * kHalves;
        codes[j] = make_uint4(0, 0, 0, 0);
        scale[j] = 0.0f;
        if (i >= rows * tables || shared.places[i].row == nullptr) continue;
        codes[j] = __ldg(reinterpret_cast<const uint4*>(shared.places[i].row) + chunk);
        scale[j] = __ldg(shared.places[i].scale);
      }
#pragma unroll
      for (uint32_t j = 0; j < kAhead; ++j) {
        const uint32_t i = i0 + j * kHalves;
        if (i >= rows * tables) continue;
        const uint32_t to = shared.rows + i / tables * shared.row_bytes +
                            (i % tables * plan.width + 16 * chunk) * 2;
        const uint4 low = DecodeE4m3(make_uint2(codes[j].x, codes[j].y), scale[j]);
        const uint4 high = DecodeE4m3(make_uint2(codes[j].z, codes[j].w), scale[j]);
        StoreShared(to, low);
        StoreShared(to + 16, high);
      }
    }
  }
}

// The projections of a warp's columns, two steps of k a load, kDepth loads ahead.
template <typename Shape>
struct Weights {
  uint4 ahead[Shape::kDepth][Shape::kColumnTiles];
  const uint4* from;  // of this lane, first column tile and load
  uint32_t stride;    // from column tile to column tile
  uint32_t loads;

  __device__ void Load(uint32_t slot, uint32_t load) {
#pragma unroll
    for (uint32_t n = 0; n < Shape::kColumnTiles; ++n) {
      ahead[slot][n] = __ldg(from + n * stride + load * 32);
    }
  }
  __device__ void Start() {
#pragma unroll
    for (uint32_t i = 0; i < Shape::kDepth; ++i) {
      if (i < loads) Load(i, i);
    }
  }
};

// sums += rows . weights. `rows`: the address of this lane's ldmatrix row at the part's first k.
template <typename Shape>
__device__ inline void Multiply(Weights<Shape>& weights, uint32_t rows, uint32_t row_bytes,
                                float (&sums)[Shape::kRowTiles][Shape::kColumnTiles][4]) {
#pragma unroll 1
  for (uint32_t first = 0; first < weights.loads; first += Shape::kDepth) {
#pragma unroll
    for (uint32_t i = 0; i < Shape::kDepth; ++i) {
      if (first + i >= weights.loads) break;
#pragma unroll
      for (uint32_t m = 0; m < Shape::kRowTiles; ++m) {
        uint32_t a[2][4];
        const uint32_t at = rows + m * 16 * row_bytes + (first + i) * 64;
        LoadMatrices(a[0], at);
        LoadMatrices(a[1], at + 32);
#pragma unroll
        for (uint32_t n = 0; n < Shape::kColumnTiles; ++n) {
          const uint4 w = weights.ahead[i][n];
          MmaBf16(sums[m][n], a[0], w.x, w.y);
          MmaBf16(sums[m][n], a[1], w.z, w.w);
        }
      }
      if (first + i + Shape::kDepth < weights.loads) {
        weights.Load(i, first + i + Shape::kDepth);
      }
    }
  }
}

__device__ inline uint32_t SecondBlock(uint32_t address) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(there) : "r"(address));
  return there;
}
__device__ inline void StoreCluster(uint32_t to, const float (&v)[4]) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v[0]), "f"(v[1]),
               "f"(v[2]), "f"(v[3])
               : "memory");
}

template <uint32_t kRows>
__global__ void __launch_bounds__(kQueryThreads, 1)
    NgramQuery(const __grid_constant__ NgramModelView model,
               const __grid_constant__ NgramRequest request, uint16_t* out) {
  using Shape = QueryShape<kRows>;
  constexpr uint32_t kRowTiles{Shape::kRowTiles}, kColumnTiles{Shape::kColumnTiles};
  extern __shared__ __align__(16) std::byte memory[];
  const NgramPlan& plan = model.plan;
  const QueryShared shared = DivideShared(plan, kRows, memory);
  const uint32_t block = BlockOfCluster();
  const uint32_t warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const uint32_t half = warp / kQueryWarps;  // of the block's two parts
  const uint32_t row0 = warp % kQueryWarps % Shape::kWarpRows * kRowTiles * 16;
  const uint32_t column_tile = blockIdx.x / kQueryCluster * (kQueryColumns / 8) +
                               warp % kQueryWarps / Shape::kWarpRows * kColumnTiles;
  const uint32_t first_table = plan.PartBegin(2 * block);
  const uint32_t tables = plan.PartBegin(2 * block + 2) - first_table;
  const uint32_t part = plan.PartBegin(2 * block + half);

  Weights<Shape> weights;
  weights.stride = plan.hidden;  // hidden / 32 loads of 32 lanes
  weights.from = reinterpret_cast<const uint4*>(model.fragments) +
                 size_t{column_tile} * weights.stride + part * plan.width + lane;
  weights.loads = (plan.PartBegin(2 * block + half + 1) - part) * plan.width / 32;
  weights.Start();
  RowFinder finder(model, first_table, tables);
  ArriveCluster();
  LetNextStart();
  WaitForPrevious();

  finder.Find(model, request, first_table, tables, kRows, shared.places);
  // The word rows' pairs of columns that the warps of part 2 finish.
  const bool finishes = block == 1 && half == 0;
  uint32_t word[kRowTiles][2][kColumnTiles] = {};
  if (finishes) {
#pragma unroll
    for (uint32_t i = 0; i < kRowTiles * 2; ++i) {
      const uint32_t t = row0 + i * 8 + lane / 4;
      if (t >= request.tokens) continue;
      const uint16_t* row = WordRow(model, request, t);
#pragma unroll
      for (uint32_t n = 0; n < kColumnTiles; ++n) {
        const uint32_t column = (column_tile + n) * 8 + lane % 4 * 2;
        if (column < plan.hidden) {
          word[i / 2][i % 2][n] = __ldg(reinterpret_cast<const uint32_t*>(row + column));
        }
      }
    }
  }
  __syncthreads();
  if (model.fp8) {
    GatherE4m3(plan, shared, tables, kRows);
  } else {
    GatherBf16(plan, shared, tables, kRows);
  }
  __syncthreads();

  float sums[kRowTiles][kColumnTiles][4] = {};
  Multiply<Shape>(weights,
                  shared.rows + (row0 + lane % 16) * shared.row_bytes + lane / 16 * 16 +
                      (part - first_table) * plan.width * 2,
                  shared.row_bytes, sums);

  // The sums of the second part of a block pass to the warps of the first through the rows' memory.
  constexpr uint32_t kTiles{kRowTiles * kColumnTiles};
  const uint32_t slot = (warp % kQueryWarps * kTiles * 32 + lane) * 16;
  WaitCluster();
  __syncthreads();
  if (half == 1) {
#pragma unroll
    for (uint32_t i = 0; i < kTiles; ++i) {
      const float(&v)[4] = sums[i / kColumnTiles][i % kColumnTiles];
      StoreShared(shared.rows + slot + i * 512, v[0], v[1], v[2], v[3]);
    }
  }
  __syncthreads();
  if (block == 0 && half == 0) {
    const uint32_t there = SecondBlock(shared.sums);
#pragma unroll
    for (uint32_t i = 0; i < kTiles; ++i) {
      float(&v)[4] = sums[i / kColumnTiles][i % kColumnTiles];
      const float4 second = LoadShared(shared.rows + slot + i * 512);
      v[0] += second.x, v[1] += second.y, v[2] += second.z, v[3] += second.w;
      StoreCluster(there + slot + i * 512, v);
    }
  }
  SyncCluster();
  if (!finishes) return;
#pragma unroll
  for (uint32_t i = 0; i < kTiles; ++i) {
    const uint32_t m = i / kColumnTiles, n = i % kColumnTiles;
    const float(&v)[4] = sums[m][n];
    const float4 before = LoadShared(shared.sums + slot + i * 512);
    const float4 last = LoadShared(shared.rows + slot + i * 512);
    const uint32_t column = (column_tile + n) * 8 + lane % 4 * 2;
    const uint32_t t = row0 + m * 16 + lane / 4;
    if (column >= plan.hidden) continue;
    if (t < request.tokens) {
      *reinterpret_cast<uint32_t*>(out + size_t{t} * plan.hidden + column) =
          WithWordRow(plan, word[m][0][n], before.x + v[0] + last.x, before.y + v[1] + last.y);
    }
    if (t + 8 < request.tokens) {
      *reinterpret_cast<uint32_t*>(out + (size_t{t} + 8) * plan.hidden + column) =
          WithWordRow(plan, word[m][1][n], before.z + v[2] + last.z, before.w + v[3] + last.w);
    }
  }
}

template <uint32_t kRows>
cudaError_t LaunchRows(const NgramModelView& model, const NgramRequest& request, uint16_t* out,
                       bool overlap, cudaStream_t stream) {
  const uint32_t shared_bytes = model.plan.QuerySharedBytes(kRows);
  const cudaError_t allowed =
      cudaFuncSetAttribute(NgramQuery<kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes));
  if (allowed != cudaSuccess) return allowed;
  return Launch(NgramQuery<kRows>,
                {.grid = dim3(model.plan.FragmentColumns() / kQueryColumns * kQueryCluster),
                 .threads = kQueryThreads,
                 .shared_bytes = shared_bytes,
                 .cluster = kQueryCluster,
                 .overlap = overlap},
                stream, model, request, out);
}

__global__ void __launch_bounds__(256)
    NgramIds(const __grid_constant__ NgramModelView model,
             const __grid_constant__ NgramRequest request, uint32_t* ids) {
  const uint32_t tables = model.plan.tables;
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= size_t{request.tokens} * tables) return;
  const NgramWindow window = LoadWindow(model, request, static_cast<uint32_t>(i / tables));
  ids[i] = TableRow(model.plan, model.entries[i % tables], window);
}

}  // namespace

cudaError_t LaunchNgramQuery(const NgramModelView& model, const NgramRequest& request,
                             uint16_t* out, bool overlap, cudaStream_t stream) {
  if (request.tokens <= 16) return LaunchRows<16>(model, request, out, overlap, stream);
  if (request.tokens <= 32) return LaunchRows<32>(model, request, out, overlap, stream);
  return LaunchRows<64>(model, request, out, overlap, stream);
}

cudaError_t LaunchNgramIds(const NgramModelView& model, const NgramRequest& request, uint32_t* ids,
                           cudaStream_t stream) {
  constexpr uint32_t kThreads{256};
  const size_t count = size_t{request.tokens} * model.plan.tables;
  const dim3 grid(static_cast<uint32_t>((count + kThreads - 1) / kThreads));
  return Launch(NgramIds, {.grid = grid, .threads = kThreads}, stream, model, request, ids);
}

}  // namespace sprat::gpu
