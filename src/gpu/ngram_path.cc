#include "gpu/ngram_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ngram/number_formats.h"

namespace sprat::gpu {
namespace {

// Up to so many tokens the query kernel is the fastest, as measured (docs/ngram.md); of bf16 rows
// the split kernel always is.
constexpr uint32_t kQueryBest{0}, kQueryBestFp8{16};

Result<void> CheckPieces(const NgramPlan& plan, std::span<const NgramPiece> pieces) {
  for (const NgramPiece& piece : pieces) {
    for (const std::span<const uint32_t> tokens :
         {piece.context.last(std::min<size_t>(piece.context.size(), plan.order - 1)),
          piece.tokens}) {
      for (const uint32_t token : tokens) {
        if (token < plan.vocabulary) continue;
        return Error(ErrorCode::kInvalidArgument,
                     fmt::format("token {}: expected less than the {} of the vocabulary", token,
                                 plan.vocabulary));
      }
    }
  }
  return {};
}

size_t CountTokens(std::span<const NgramPiece> pieces) {
  size_t tokens = 0;
  for (const NgramPiece& piece : pieces) tokens += piece.tokens.size();
  return tokens;
}

template <typename T>
Result<DeviceBuffer> Sent(const std::vector<T>& values) {
  Result<DeviceBuffer> buffer = AllocateDevice(values.size() * sizeof(T));
  if (!buffer.ok()) return buffer;
  Result<void> done = Upload(buffer.value().get(), values.data(), values.size() * sizeof(T),
                             "sending a batch to the device");
  if (!done.ok()) return std::move(done.error());
  return buffer;
}

// Waits for what is in the stream.
Result<void> Receive(void* to, const void* from, size_t size_bytes, cudaStream_t stream) {
  Result<void> done =
      Check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToHost, stream), "copying");
  if (!done.ok()) return done;
  return Check(cudaStreamSynchronize(stream), "computing n-gram embeddings");
}

Error WrongSize(std::string_view what, size_t found, size_t expected) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{} elements of {}: expected {}", found, what, expected));
}

}  // namespace

// In blocks of a length that the compiler knows, so that it uses vectors.
void Widen(const uint16_t* from, std::span<float> to) {
  constexpr size_t kBlock{16};
  size_t i = 0;
  for (; i + kBlock <= to.size(); i += kBlock) {
    for (size_t j = 0; j < kBlock; ++j) to[i + j] = Bf16ToFloat(from[i + j]);
  }
  for (; i < to.size(); ++i) to[i] = Bf16ToFloat(from[i]);
}

NgramPath::NgramPath(NgramWeights weights)
    : weights_(std::move(weights)),
      view_(weights_.View()),
      graphs_(view_.plan.order, view_.plan.hidden) {}

Result<std::unique_ptr<NgramPath>> NgramPath::Open(NgramWeights weights) {
  int device = 0, major = 0, minor = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  Result<void> done = Check(status, "asking for the device's compute capability");
  if (!done.ok()) return std::move(done.error());
  if (major != 9 || minor != 0) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("n-gram embeddings on a GPU of compute capability {}.{}: expected 9.0",
                             major, minor));
  }
  std::unique_ptr<NgramPath> path(new NgramPath(std::move(weights)));
  Result<Stream> stream = CreateStream();
  if (!stream.ok()) return std::move(stream.error());
  path->stream_ = std::move(stream).value();
  return path;
}

NgramKernel NgramPath::KernelOf(uint32_t tokens) const {
  const uint32_t query_best = view_.fp8 ? kQueryBestFp8 : kQueryBest;
  const NgramKernel best = tokens <= query_best     ? NgramKernel::kQuery
                           : tokens <= kSplitTokens ? NgramKernel::kSplit
                                                    : NgramKernel::kBatch;
  const NgramKernel wanted = forced_.value_or(best);
  const bool fits = tokens <= view_.plan.MostQueryTokens();
  return wanted == NgramKernel::kQuery && !fits ? NgramKernel::kSplit : wanted;
}

size_t NgramPath::WorkspaceBytes(uint32_t tokens) const {
  if (tokens == 0 || KernelOf(tokens) != NgramKernel::kBatch) return 0;
  return BatchWorkspaceBytes(tokens, view_.plan.hidden);
}

Result<void> NgramPath::Enqueue(const NgramRequest& request, uint16_t* out, cudaStream_t stream,
                                bool overlap) const {
  if (view_.word == nullptr && request.hidden == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 "the model was opened without a word table: expected hidden rows");
  }
  if (request.tokens == 0) return {};
  // Rows that are elsewhere are read once, by the batch kernel; the others read them once for each
  // tile of columns.
  const NgramKernel kernel =
      request.rows != nullptr ? NgramKernel::kBatch : KernelOf(request.tokens);
  if (kernel == NgramKernel::kBatch && request.workspace == nullptr) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("no workspace for {} tokens: expected {} bytes", request.tokens,
                             BatchWorkspaceBytes(request.tokens, view_.plan.hidden)));
  }
  const auto launch = kernel == NgramKernel::kQuery   ? LaunchNgramQuery
                      : kernel == NgramKernel::kSplit ? LaunchNgramSplit
                                                      : LaunchNgramBatch;
  return Check(launch(view_, request, out, overlap, stream), "launching n-gram embeddings");
}

// A context shorter than N - 1 tokens begins with ends of sequence.
Result<NgramPath::Batch> NgramPath::LayOut(std::span<const NgramPiece> pieces) const {
  const NgramPlan& plan = view_.plan;
  Result<void> valid = CheckPieces(plan, pieces);
  if (!valid.ok()) return std::move(valid.error());
  const size_t tokens = CountTokens(pieces), before = plan.order - 1;
  if (tokens > UINT32_MAX / 2 / plan.order) {
    return WrongSize("tokens", tokens, UINT32_MAX / 2 / plan.order);
  }
  Batch batch;
  for (const NgramPiece& piece : pieces) {
    if (piece.tokens.empty()) continue;
    const size_t known = std::min(piece.context.size(), before);
    batch.stream.insert(batch.stream.end(), before - known, weights_.eos());
    batch.stream.insert(batch.stream.end(), piece.context.end() - known, piece.context.end());
    for (const uint32_t token : piece.tokens) {
      batch.at.push_back(static_cast<uint32_t>(batch.stream.size()));
      batch.stream.push_back(token);
    }
  }
  return batch;
}

Result<NgramRequest> NgramPath::Send(const Batch& batch, std::span<const float> hidden) {
  const NgramPlan& plan = view_.plan;
  const size_t tokens = batch.at.size();
  std::vector<uint32_t> words = batch.stream;
  words.insert(words.end(), batch.at.begin(), batch.at.end());
  Result<DeviceBuffer> sent = Sent(words);
  if (!sent.ok()) return std::move(sent.error());
  tokens_ = std::move(sent).value();
  NgramRequest request;
  request.stream = reinterpret_cast<const uint32_t*>(tokens_.get());
  request.at = request.stream + batch.stream.size();
  request.tokens = static_cast<uint32_t>(tokens);
  if (hidden.empty()) return request;
  if (hidden.size() != tokens * plan.hidden) {
    return WrongSize("hidden rows", hidden.size(), tokens * plan.hidden);
  }
  std::vector<uint16_t> rows(hidden.size());
  std::transform(hidden.begin(), hidden.end(), rows.begin(), FloatToBf16);
  sent = Sent(rows);
  if (!sent.ok()) return std::move(sent.error());
  hidden_ = std::move(sent).value();
  request.hidden = reinterpret_cast<const uint16_t*>(hidden_.get());
  return request;
}

Result<NgramRequest> NgramPath::Send(std::span<const NgramPiece> pieces,
                                     std::span<const float> hidden, size_t values) {
  const size_t count = CountTokens(pieces) * view_.plan.hidden;
  if (values != count) return WrongSize("vectors", values, count);
  if (count == 0) return NgramRequest{};
  Result<Batch> batch = LayOut(pieces);
  if (!batch.ok()) return std::move(batch.error());
  return Send(batch.value(), hidden);
}

Result<void> NgramPath::Ids(std::span<const NgramPiece> pieces, std::span<uint32_t> ids) {
  const size_t count = CountTokens(pieces) * view_.plan.tables;
  if (ids.size() != count) return WrongSize("ids", ids.size(), count);
  if (count == 0) return {};
  Result<Batch> batch = LayOut(pieces);
  if (!batch.ok()) return std::move(batch.error());
  Result<NgramRequest> request = Send(batch.value(), {});
  if (!request.ok()) return std::move(request.error());
  Result<DeviceBuffer> buffer = AllocateDevice(ids.size_bytes());
  if (!buffer.ok()) return std::move(buffer.error());
  auto* on_device = reinterpret_cast<uint32_t*>(buffer.value().get());
  Result<void> done =
      Check(LaunchNgramIds(view_, request.value(), on_device, stream_.get()), "launching ids");
  if (!done.ok()) return done;
  return Receive(ids.data(), on_device, ids.size_bytes(), stream_.get());
}

Result<void> NgramPath::EmbedByGraph(const Batch& batch, std::span<float> out) {
  const auto tokens = static_cast<uint32_t>(batch.at.size());
  const uint32_t bucket = NgramGraphs::BucketOf(tokens);
  if (WorkspaceBytes(bucket) > 0 && graph_workspace_ == nullptr) {
    Result<DeviceBuffer> allocated =
        AllocateDevice(BatchWorkspaceBytes(NgramGraphs::kMostTokens, view_.plan.hidden));
    if (!allocated.ok()) return std::move(allocated.error());
    graph_workspace_ = std::move(allocated).value();
  }
  const auto enqueue = [this](NgramRequest request, uint16_t* to, cudaStream_t stream) {
    request.workspace = reinterpret_cast<uint16_t*>(graph_workspace_.get());
    return Enqueue(request, to, stream);
  };
  Result<const uint16_t*> rows = graphs_.Run(batch.stream, batch.at, enqueue, stream_.get());
  if (!rows.ok()) return std::move(rows.error());
  Widen(rows.value(), out);
  return {};
}

Result<void> NgramPath::Embed(std::span<const NgramPiece> pieces, std::span<const float> hidden,
                              std::span<float> out) {
  const size_t count = CountTokens(pieces) * view_.plan.hidden;
  if (out.size() != count) return WrongSize("vectors", out.size(), count);
  if (count == 0) return {};
  Result<Batch> batch = LayOut(pieces);
  if (!batch.ok()) return std::move(batch.error());
  const bool small = batch.value().at.size() <= NgramGraphs::kMostTokens;
  if (small && hidden.empty() && view_.word != nullptr) return EmbedByGraph(batch.value(), out);
  Result<NgramRequest> request = Send(batch.value(), hidden);
  if (!request.ok()) return std::move(request.error());
  Result<DeviceBuffer> buffer = AllocateDevice(count * 2);
  if (!buffer.ok()) return std::move(buffer.error());
  auto* on_device = reinterpret_cast<uint16_t*>(buffer.value().get());
  DeviceBuffer workspace;
  if (const size_t bytes = WorkspaceBytes(request.value().tokens); bytes > 0) {
    Result<DeviceBuffer> allocated = AllocateDevice(bytes);
    if (!allocated.ok()) return std::move(allocated.error());
    workspace = std::move(allocated).value();
    request.value().workspace = reinterpret_cast<uint16_t*>(workspace.get());
  }
  Result<void> done = Enqueue(request.value(), on_device, stream_.get());
  if (!done.ok()) return done;
  std::vector<uint16_t> rows(count);
  done = Receive(rows.data(), on_device, count * 2, stream_.get());
  if (!done.ok()) return done;
  Widen(rows.data(), out);
  return {};
}

}  // namespace sprat::gpu
