#include "gpu/graph_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "gpu/attention.h"
#include "gpu/tile_kernels.h"

namespace sprat::gpu {
namespace {

constexpr uint32_t kBuckets[] = {16, 32, 48, 64, 128, 192, 256, 320, 384, 448, 512};

size_t RequestBytes() {
  return RequestLayout{.tokens = kPieceTokens, .sequences = kPieceSequences}.Bytes();
}

double Microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

Result<std::string> DescribeDevice(int device) {
  const Result<void> used = UseDevice(device);
  if (!used.ok()) return used.error();
  cudaDeviceProp properties;
  Result<void> asked = Check(cudaGetDeviceProperties(&properties, device), "asking a CUDA device");
  if (!asked.ok()) return std::move(asked.error());
  return fmt::format("{}, compute capability {}.{}", properties.name, properties.major,
                     properties.minor);
}

Result<std::unique_ptr<GpuEncoder>> OpenGpuEncoder(const EncoderConfig& config,
                                                   const ReadTensor& read,
                                                   const GpuOptions& options) {
  Result<std::unique_ptr<GraphPath>> opened = GraphPath::Open(config, read, options);
  if (!opened.ok()) return std::move(opened.error());
  return std::unique_ptr<GpuEncoder>(std::move(opened).value());
}

GraphPath::GraphPath(const EncoderConfig& config, const GpuOptions& options)
    : options_(options),
      weights_layout_{
          .vocabulary = config.vocabulary, .positions = config.positions, .layers = config.layers},
      layers_(config.layers),
      eps_(config.layer_norm_eps) {}

Result<std::unique_ptr<GraphPath>> GraphPath::Open(const EncoderConfig& config,
                                                   const ReadTensor& read,
                                                   const GpuOptions& options) {
  Result<void> done = CheckShape(config);
  if (!done.ok()) return std::move(done.error());
  const uint32_t longest = std::min(config.positions, kPositions);
  if (options.max_sequence == 0 || options.max_sequence > longest) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("maximum length {}: the GPU path takes 1 to {} tokens",
                             options.max_sequence, longest));
  }
  done = UseDevice(options.device);
  if (!done.ok()) return std::move(done.error());
  std::unique_ptr<GraphPath> path(new GraphPath(config, options));
  done = path->LoadWeights(config, read);
  if (done.ok()) done = path->AllocateWorkSpace();
  if (done.ok()) done = path->CaptureGraphs();
  if (!done.ok()) return std::move(done.error());
  return path;
}

Result<void> GraphPath::LoadWeights(const EncoderConfig& config, const ReadTensor& read) {
  Result<ByteBuffer> packed = PackWeights(config, read);
  if (!packed.ok()) return std::move(packed.error());
  Result<DeviceBuffer> weights = AllocateDevice(packed.value().size_bytes());
  if (!weights.ok()) return std::move(weights.error());
  weights_ = std::move(weights).value();
  return Upload(weights_.get(), packed.value().begin(), packed.value().size_bytes(),
                "copying weights to the device");
}

Result<void> GraphPath::AllocateWorkSpace() {
  int shared_bytes = 0, major = 0, minor = 0;
  cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, options_.device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options_.device);
  Result<void> done =
      Check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options_.device),
            "asking a CUDA device");
  if (!done.ok()) return done;
  const size_t wanted = RowTileOf(Matrix::kDown, 32).SharedBytes(Matrix::kDown);
  tile_rows_ = static_cast<size_t>(shared_bytes) >= wanted ? 32 : 16;
  has_wgmma_ = major == 9 && minor == 0;
  done = Check(CanOverlap(overlap_), "loading the GPU kernels");
  if (done.ok()) done = Check(PrepareRowKernels(tile_rows_), "loading the GPU kernels");
  if (done.ok()) done = Check(PrepareQueryAttention(), "loading the GPU kernels");
  if (done.ok() && has_wgmma_) done = Check(PrepareTileKernels(), "loading the GPU kernels");
  if (!done.ok()) return done;

  const size_t rows = capacity_;
  const size_t sizes[] = {RequestBytes(),     4 * rows * kHidden, 4 * rows * kHidden,
                          2 * rows * kHidden, 6 * rows * kHidden, 2 * rows * kHidden,
                          2 * rows * kFfn};
  size_t at[std::size(sizes)], total = 0;
  for (size_t i = 0; i < std::size(sizes); ++i) {
    at[i] = total;
    total += (sizes[i] + 1023) / 1024 * 1024;
  }
  Result<DeviceBuffer> work_space = AllocateDevice(total);
  if (!work_space.ok()) return std::move(work_space.error()).In("work space");
  work_space_ = std::move(work_space).value();
  std::byte* base = work_space_.get();
  const auto halves = [&](size_t i) { return reinterpret_cast<uint16_t*>(base + at[i]); };
  buffers_ = {.weights = weights_.get(),
              .source = base,
              .request = base,
              .sum = reinterpret_cast<float*>(base + at[1]),
              .state = reinterpret_cast<float*>(base + at[2]),
              .operand = halves(3),
              .qkv = halves(4),
              .context = halves(5),
              .inner = halves(6),
              .result = nullptr,
              .rows = capacity_};

  Result<Stream> stream = CreateStream();
  if (!stream.ok()) return std::move(stream.error());
  stream_ = std::move(stream).value();
  for (Slot& slot : slots_) {
    Result<PinnedBuffer> request = AllocatePinned(RequestBytes());
    if (!request.ok()) return std::move(request.error());
    Result<PinnedBuffer> result = AllocatePinned(sizeof(float) * kHidden * size_t{kPieceSequences});
    if (!result.ok()) return std::move(result.error());
    Result<Event> event = CreateEvent();
    if (!event.ok()) return std::move(event.error());
    slot = {std::move(request).value(), std::move(result).value(), std::move(event).value()};
  }
  return {};
}

Path GraphPath::PathOf(uint32_t tokens) const {
  if (!has_wgmma_) return Path::kRow;
  if (forced_) return *forced_;
  return tokens <= kRowPathTokens ? Path::kRow : Path::kTile;
}

LaunchContext GraphPath::Context(const Slot& slot, const RequestLayout& layout) const {
  LaunchContext context{.buffers = buffers_,
                        .weights = weights_layout_,
                        .request = layout,
                        .tokens = layout.tokens,
                        .sequences = layout.sequences,
                        .items = layout.Items(),
                        .longest = layout.tokens,
                        .tile_rows = std::min(RowTokens(layout.tokens), tile_rows_),
                        .pooling = options_.pooling,
                        .eps = eps_,
                        .overlap = overlap_,
                        .early = layout.tokens <= kEarlyStartTokens,
                        .stream = stream_.get()};
  context.buffers.result = reinterpret_cast<float*>(slot.result.get());
  return context;
}

Result<void> GraphPath::LaunchSteps(const LaunchContext& context, Path path, size_t left_out) {
  std::vector<Step> steps = PlanSteps(path, layers_);
  steps.resize(steps.size() - left_out);
  for (const Step& step : steps) {
    const cudaError_t status =
        path == Path::kTile ? LaunchTileStep(step, context) : LaunchRowStep(step, context);
    Result<void> launched = Check(status, "launching a GPU kernel");
    if (!launched.ok()) return launched;
  }
  return {};
}

// A query's kernels read the request where the host wrote it: no copy, and the first kernel hands
// it on to the others.
Result<GraphExec> GraphPath::CaptureGraph(uint32_t bucket, size_t left_out) {
  const RequestLayout layout{.tokens = bucket, .sequences = 1};
  LaunchContext context = Context(slots_[0], layout);
  context.buffers.source = slots_[0].request.get();
  context.items = Items(bucket);
  Result<void> done = Check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
                            "capturing a CUDA graph");
  if (!done.ok()) return std::move(done.error());
  Result<void> launched =
      LaunchSteps(context, bucket <= kQueryTokens ? Path::kQuery : Path::kRow, left_out);
  cudaGraph_t captured = nullptr;
  done = Check(cudaStreamEndCapture(stream_.get(), &captured), "capturing a CUDA graph");
  const Graph graph(captured);
  if (!launched.ok()) return std::move(launched.error());
  if (!done.ok()) return std::move(done.error());
  cudaGraphExec_t executable = nullptr;
  done = Check(cudaGraphInstantiate(&executable, graph.get(), 0), "instantiating a CUDA graph");
  if (!done.ok()) return std::move(done.error());
  GraphExec owned(executable);
  done = Check(cudaGraphUpload(executable, stream_.get()), "uploading a CUDA graph");
  if (!done.ok()) return std::move(done.error());
  return owned;
}

Result<void> GraphPath::CaptureGraphs() {
  for (const uint32_t bucket : kBuckets) {
    Result<GraphExec> graph = CaptureGraph(bucket, 0);
    if (!graph.ok()) return std::move(graph.error());
    graphs_.emplace(bucket, std::move(graph).value());
  }
  // One run of each path, so that no later call pays for loading code.
  TokenBatch warm_up;
  const std::vector<uint32_t> ids(std::min<uint32_t>(options_.max_sequence, 16), 0);
  std::vector<float> out(kHidden);
  for (int i = 0; i < 2; ++i) {
    warm_up.Append(ids);
    out.resize(kHidden * warm_up.sequences());
    Result<void> run =
        Embed(warm_up, {}, MatrixView<float>(out.data(), warm_up.sequences(), kHidden));
    if (!run.ok()) return run;
  }
  return {};
}

Result<void> GraphPath::CheckBatch(const TokenBatch& batch, MatrixView<float> out) const {
  if (out.columns == 0 || out.columns > kHidden || out.rows < batch.sequences()) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("output of {} x {} for {} sequences of at most {} columns", out.rows,
                             out.columns, batch.sequences(), kHidden));
  }
  for (size_t i = 0; i < batch.sequences(); ++i) {
    const std::span<const uint32_t> sequence = batch.Sequence(i);
    if (sequence.empty() || sequence.size() > options_.max_sequence) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("sequence {} has {} tokens; 1 to {} are possible", i,
                               sequence.size(), options_.max_sequence));
    }
    for (const uint32_t id : sequence) {
      if (id >= weights_layout_.vocabulary) {
        return Error(ErrorCode::kInvalidArgument,
                     fmt::format("sequence {} has the token id {}; the vocabulary ends at {}", i,
                                 id, weights_layout_.vocabulary - 1));
      }
    }
  }
  return {};
}

bool GraphPath::IsQuery(const TokenBatch& batch, const Piece& piece) const {
  return batch.sequences() == 1 && GraphBucket(piece.tokens) != 0 &&
         PathOf(piece.tokens) == Path::kRow;
}

Result<void> GraphPath::EnqueueQuery(const TokenBatch& batch, const Piece& piece,
                                     const ResultForm& form) {
  const uint32_t bucket = GraphBucket(piece.tokens);
  const RequestLayout layout{.tokens = bucket, .sequences = 1};
  WriteRequest(batch, piece, form, layout, {slots_[0].request.get(), layout.Bytes()});
  return Check(cudaGraphLaunch(graphs_.at(bucket).get(), stream_.get()), "launching a CUDA graph");
}

Result<void> GraphPath::Enqueue(const TokenBatch& batch, const Piece& piece, const ResultForm& form,
                                Slot& slot) {
  const RequestLayout layout{.tokens = piece.tokens, .sequences = piece.sequences()};
  LaunchContext context = Context(slot, layout);
  context.items = WriteRequest(batch, piece, form, layout, {slot.request.get(), layout.Bytes()});
  context.longest = Longest(batch, piece);
  Result<void> done = Check(cudaMemcpyAsync(buffers_.request, slot.request.get(), layout.Bytes(),
                                            cudaMemcpyHostToDevice, stream_.get()),
                            "copying a batch to the device");
  if (done.ok()) done = LaunchSteps(context, PathOf(piece.tokens));
  if (!done.ok()) return done;
  return Check(cudaEventRecord(slot.done.get(), stream_.get()), "recording a CUDA event");
}

Result<void> GraphPath::Collect(const Piece& piece, const Slot& slot, MatrixView<float> out) {
  const Result<void> done = Check(cudaEventSynchronize(slot.done.get()), "waiting for the device");
  if (!done.ok()) return done;
  const float* result = reinterpret_cast<const float*>(slot.result.get());
  for (size_t i = piece.first; i < piece.end; ++i) {
    std::memcpy(out.Row(i), result + (i - piece.first) * kHidden, sizeof(float) * out.columns);
  }
  return {};
}

Result<void> GraphPath::Embed(const TokenBatch& batch, const OutputForm& form,
                              MatrixView<float> out) {
  Result<void> done = CheckBatch(batch, out);
  if (!done.ok() || batch.sequences() == 0) return done;
  done = Check(cudaSetDevice(options_.device), "using a CUDA device");
  if (!done.ok()) return done;
  PlanPieces(batch, {}, pieces_);
  const ResultForm wanted{.columns = static_cast<uint32_t>(out.columns),
                          .normalize = form.normalize};
  if (IsQuery(batch, pieces_[0])) {
    done = EnqueueQuery(batch, pieces_[0], wanted);
    if (done.ok()) done = Check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
    if (done.ok()) std::memcpy(out.Row(0), slots_[0].result.get(), sizeof(float) * out.columns);
    return done;
  }
  for (size_t i = 0; i < pieces_.size() && done.ok(); ++i) {
    done = Enqueue(batch, pieces_[i], wanted, slots_[i % 2]);
    if (done.ok() && i > 0) done = Collect(pieces_[i - 1], slots_[(i - 1) % 2], out);
  }
  if (done.ok()) return Collect(pieces_.back(), slots_[(pieces_.size() - 1) % 2], out);
  cudaStreamSynchronize(stream_.get());  // nothing may still write to the slots
  return done;
}

// Enqueues the batch once more, requests already written: the first piece's in slot 0, the last's
// in slot 1, the others being like the first.
Result<void> GraphPath::Repeat(const TokenBatch& batch) {
  if (IsQuery(batch, pieces_[0])) {
    return Check(cudaGraphLaunch(graphs_.at(GraphBucket(pieces_[0].tokens)).get(), stream_.get()),
                 "launching a CUDA graph");
  }
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Slot& slot = slots_[i > 0 && i + 1 == pieces_.size() ? 1 : 0];
    const RequestLayout layout{.tokens = pieces_[i].tokens, .sequences = pieces_[i].sequences()};
    LaunchContext context = Context(slot, layout);
    context.items = reinterpret_cast<const RequestHeader*>(slot.request.get())->items;
    context.longest = Longest(batch, pieces_[i]);
    Result<void> done = Check(cudaMemcpyAsync(buffers_.request, slot.request.get(), layout.Bytes(),
                                              cudaMemcpyHostToDevice, stream_.get()),
                              "copying a batch to the device");
    if (done.ok()) done = LaunchSteps(context, PathOf(pieces_[i].tokens));
    if (!done.ok()) return done;
  }
  return {};
}

// Of `repeats` times `enqueue`, one after the other, by the device's clock.
template <typename Call>
Result<double> GraphPath::MeanSeconds(int repeats, const Call& enqueue) {
  Result<Event> begin = CreateEvent(), end = CreateEvent();
  if (!begin.ok()) return std::move(begin.error());
  if (!end.ok()) return std::move(end.error());
  Result<void> done =
      Check(cudaEventRecord(begin.value().get(), stream_.get()), "recording a CUDA event");
  for (int i = 0; i < repeats && done.ok(); ++i) done = enqueue();
  if (done.ok()) {
    done = Check(cudaEventRecord(end.value().get(), stream_.get()), "recording a CUDA event");
  }
  const Result<void> waited = Check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
  if (done.ok()) done = waited;
  float milliseconds = 0;
  if (done.ok()) {
    done = Check(cudaEventElapsedTime(&milliseconds, begin.value().get(), end.value().get()),
                 "reading a CUDA event");
  }
  if (!done.ok()) return std::move(done.error());
  return milliseconds / 1000.0 / repeats;
}

Result<double> GraphPath::TimeDevice(const TokenBatch& batch, int repeats) {
  std::vector<float> out(batch.sequences() * kHidden);
  Result<void> done = Embed(batch, {}, MatrixView<float>(out.data(), batch.sequences(), kHidden));
  if (!done.ok()) return std::move(done.error());
  for (const size_t i : {size_t{0}, pieces_.size() - 1}) {
    const RequestLayout layout{.tokens = pieces_[i].tokens, .sequences = pieces_[i].sequences()};
    if (IsQuery(batch, pieces_[0])) break;
    WriteRequest(batch, pieces_[i], {kHidden, true}, layout,
                 {slots_[i == 0 ? 0 : 1].request.get(), layout.Bytes()});
  }
  return MeanSeconds(repeats, [&] { return Repeat(batch); });
}

Result<double> GraphPath::TimePooling(const TokenBatch& batch, int repeats) {
  std::vector<float> out(batch.sequences() * kHidden);
  Result<void> done = Embed(batch, {}, MatrixView<float>(out.data(), batch.sequences(), kHidden));
  if (!done.ok()) return std::move(done.error());
  if (!IsQuery(batch, pieces_[0])) return Error(ErrorCode::kInvalidArgument, "not a single query");
  const uint32_t bucket = GraphBucket(pieces_[0].tokens);
  Result<GraphExec> without = CaptureGraph(bucket, 1);
  if (!without.ok()) return std::move(without.error());
  double seconds[2] = {};
  const cudaGraphExec_t graphs[] = {graphs_.at(bucket).get(), without.value().get()};
  for (size_t i = 0; i < 2; ++i) {
    Result<double> mean = MeanSeconds(repeats, [&] {
      return Check(cudaGraphLaunch(graphs[i], stream_.get()), "launching a CUDA graph");
    });
    if (!mean.ok()) return mean;
    seconds[i] = mean.value();
  }
  return std::max(0.0, seconds[0] - seconds[1]);
}

Result<QueryTimes> GraphPath::TimeQuery(const TokenBatch& batch, int repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> out(kHidden);
  Result<void> done = CheckBatch(batch, MatrixView<float>(out.data(), 1, kHidden));
  // The calling thread may have another.
  if (done.ok()) done = Check(cudaSetDevice(options_.device), "using a CUDA device");
  if (!done.ok()) return std::move(done.error());
  PlanPieces(batch, {}, pieces_);
  if (pieces_.size() != 1 || !IsQuery(batch, pieces_[0])) {
    return Error(ErrorCode::kInvalidArgument, "not a single query");
  }
  const uint32_t bucket = GraphBucket(pieces_[0].tokens);
  const RequestLayout layout{.tokens = bucket, .sequences = 1};
  QueryTimes times;
  const Clock::time_point start = Clock::now();
  WriteRequest(batch, pieces_[0], {kHidden, true}, layout,
               {slots_[0].request.get(), layout.Bytes()});
  const Clock::time_point prepared = Clock::now();
  done = Check(cudaGraphLaunch(graphs_.at(bucket).get(), stream_.get()), "launching a CUDA graph");
  const Clock::time_point enqueued = Clock::now();
  if (done.ok()) done = Check(cudaStreamSynchronize(stream_.get()), "waiting for the device");
  const Clock::time_point woken = Clock::now();
  std::memcpy(out.data(), slots_[0].result.get(), sizeof(float) * kHidden);
  const Clock::time_point finished = Clock::now();
  if (!done.ok()) return std::move(done.error());
  times.prepare = Microseconds(prepared - start);
  times.enqueue = Microseconds(enqueued - prepared);
  times.wait = Microseconds(woken - enqueued);
  times.finish = Microseconds(finished - woken);
  Result<double> device = repeats > 0 ? TimeDevice(batch, repeats) : Result<double>(0.0);
  if (!device.ok()) return std::move(device.error());
  times.device = device.value() * 1e6;
  return times;
}

}  // namespace sprat::gpu
