// A batch and a model as the kernels of the n-gram embedding see them, and what they do with single
// tokens. No CUDA here: the functions run on host and device.
#ifndef SPRAT_GPU_NGRAM_VIEW_H_
#define SPRAT_GPU_NGRAM_VIEW_H_

#include <cstdint>

#include "gpu/ngram_plan.h"

#ifdef __CUDACC__
#define SPRAT_BOTH __host__ __device__
#define SPRAT_UNROLL _Pragma("unroll")
#define SPRAT_ROLL _Pragma("unroll 1")
#else
#define SPRAT_BOTH
#define SPRAT_UNROLL
#define SPRAT_ROLL
#endif

namespace sprat::gpu {

// A batch in device memory.
struct NgramRequest {
  // The tokens of all sequences; before the first token of each are N - 1 others: its context, or
  // the end of sequence where it has none. Every one is below V.
  const uint32_t* stream = nullptr;
  // Where the t-th token to embed is in `stream`; nullptr: at N - 1 + t.
  const uint32_t* at = nullptr;
  // T x H bf16 in place of the model's word rows, or nullptr.
  const uint16_t* hidden = nullptr;
  // T x G: where the rows are, of tables that are elsewhere than the model's entries say; or
  // nullptr.
  const std::byte* const* rows = nullptr;
  uint32_t tokens = 0;  // T
  // For the batch kernel: BatchWorkspaceBytes to work in, 16-byte aligned; one call at a time.
  uint16_t* workspace = nullptr;
};

// All that the kernels read of a model, in device memory.
struct NgramModelView {
  NgramPlan plan;
  bool fp8 = false;                          // rows of E4M3, not of bf16
  const NgramTableEntry* entries = nullptr;  // G
  const TokenRange* stops = nullptr;
  uint32_t stop_ranges = 0;
  const uint16_t* word = nullptr;       // E [V, H] bf16; nullptr: every request brings `hidden`
  const uint16_t* fragments = nullptr;  // FragmentOffset
  const uint16_t* panels = nullptr;     // PanelOffset, PanelColumns() rows
};

// x_t, S_1(t) .. S_{N-1}(t); see NgramHash.
struct NgramWindow {
  uint32_t token[kNgramMostOrder];
};

// Where the t-th token is in the stream.
SPRAT_BOTH inline uint32_t PlaceInStream(const NgramModelView& model, const NgramRequest& request,
                                         uint32_t t) {
  return request.at != nullptr ? request.at[t] : model.plan.order - 1 + t;
}

// The word row of the t-th token, in the model or in the request.
SPRAT_BOTH inline const uint16_t* WordRow(const NgramModelView& model, const NgramRequest& request,
                                          uint32_t t) {
  const size_t hidden = model.plan.hidden;
  return request.hidden != nullptr
             ? request.hidden + t * hidden
             : model.word + request.stream[PlaceInStream(model, request, t)] * hidden;
}

SPRAT_BOTH inline TokenRange LoadStop(const TokenRange* stop) {
#ifdef __CUDA_ARCH__
  const uint2 range = __ldg(reinterpret_cast<const uint2*>(stop));
  return {range.x, range.y};
#else
  return *stop;
#endif
}

// The first ranges at which the look-back stops, which a kernel loads before it has the tokens;
// those that a model lacks are empty.
struct NgramStops {
  static constexpr uint32_t kFirst{2};
  TokenRange range[kFirst];
};
SPRAT_BOTH inline NgramStops LoadStops(const NgramModelView& model) {
  NgramStops stops;
  SPRAT_UNROLL
  for (uint32_t i = 0; i < NgramStops::kFirst; ++i) {
    stops.range[i] = i < model.stop_ranges ? LoadStop(model.stops + i) : TokenRange{0, 0};
  }
  return stops;
}

SPRAT_BOTH inline bool Stops(const NgramModelView& model, const NgramStops& first, uint32_t token) {
  const auto holds = [token](TokenRange range) {
    return range.first <= token && token < range.last;
  };
  bool stops = false;
  SPRAT_UNROLL
  for (const TokenRange& range : first.range) stops |= holds(range);
  SPRAT_ROLL
  for (uint32_t i = NgramStops::kFirst; i < model.stop_ranges; ++i) {
    stops |= holds(LoadStop(model.stops + i));
  }
  return stops;
}

SPRAT_BOTH inline NgramWindow LoadWindow(const NgramModelView& model, const NgramRequest& request,
                                         const NgramStops& stops, uint32_t t) {
  const uint32_t order = model.plan.order;
  const uint32_t at = PlaceInStream(model, request, t);
  NgramWindow window;
  SPRAT_UNROLL
  for (uint32_t s = 0; s < kNgramMostOrder; ++s) {
    window.token[s] = s < order ? request.stream[at - s] : 0;
  }
  bool stopped = false;
  SPRAT_UNROLL
  for (uint32_t s = 1; s < kNgramMostOrder; ++s) {
    if (s >= order) break;
    stopped |= Stops(model, stops, window.token[s]);
    if (stopped) window.token[s] = 0;
  }
  return window;
}

SPRAT_BOTH inline NgramWindow LoadWindow(const NgramModelView& model, const NgramRequest& request,
                                         uint32_t t) {
  return LoadWindow(model, request, LoadStops(model), t);
}

SPRAT_BOTH inline uint32_t TableRow(const NgramPlan& plan, const NgramTableEntry& entry,
                                    const NgramWindow& window) {
  uint64_t sum = window.token[0];
  SPRAT_UNROLL
  for (uint32_t s = 1; s < kNgramMostOrder; ++s) {
    if (s < plan.order) sum += uint64_t{window.token[s]} * entry.power[s - 1];
  }
  if (plan.wide_sums) return static_cast<uint32_t>(sum % entry.modulus);
  // The quotient is right or off by one.
  const auto quotient = static_cast<uint64_t>(static_cast<double>(sum) * entry.inverse);
  auto rest = static_cast<int64_t>(sum - quotient * entry.modulus);
  if (rest < 0) rest += static_cast<int64_t>(entry.modulus);
  if (rest >= static_cast<int64_t>(entry.modulus)) rest -= static_cast<int64_t>(entry.modulus);
  return static_cast<uint32_t>(rest);
}

// Row `id` of table `table`, for the t-th token.
SPRAT_BOTH inline const std::byte* RowOf(const NgramModelView& model, const NgramRequest& request,
                                         const NgramTableEntry& entry, uint32_t id, uint32_t t,
                                         uint32_t table) {
  if (request.rows != nullptr) return request.rows[size_t{t} * model.plan.tables + table];
  return entry.rows + size_t{id} * model.plan.width * (model.fp8 ? 1 : 2);
}

}  // namespace sprat::gpu

#undef SPRAT_BOTH
#undef SPRAT_UNROLL
#undef SPRAT_ROLL

#endif  // SPRAT_GPU_NGRAM_VIEW_H_
