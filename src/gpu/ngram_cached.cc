#include "gpu/ngram_cached.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "ngram/dispatch.h"

namespace sprat::gpu {
namespace {

constexpr uint32_t kMostPartTokens{2048};

}  // namespace

void UnpinHostMemory::operator()(const std::byte* p) const noexcept {
  cudaHostUnregister(const_cast<std::byte*>(p));
}

NgramCached::NgramCached(const NgramConfig& config, const RowTables& tables)
    : tables_(&tables), hash_(config, ScalarNgramKernels()) {}

Result<std::unique_ptr<NgramCached>> NgramCached::Open(const NgramConfig& config,
                                                       const NgramTensors& tensors,
                                                       const RowTables& tables) {
  CHECK(tables.cache() != nullptr);
  Result<NgramWeights> weights = NgramWeights::Load(config, tensors, tables);
  if (!weights.ok()) return std::move(weights.error());
  std::unique_ptr<NgramCached> cached(new NgramCached(config, tables));
  Result<std::unique_ptr<NgramPath>> path = NgramPath::Open(std::move(weights).value());
  if (!path.ok()) return std::move(path.error());
  cached->path_ = std::move(path).value();
  Result<void> done = cached->Allocate();
  if (!done.ok()) return std::move(done.error());
  return cached;
}

Result<void> NgramCached::Allocate() {
  const std::span<std::byte> arena = tables_->cache()->arena();
  Result<void> done = Check(cudaHostRegister(arena.data(), arena.size(), cudaHostRegisterMapped),
                            "pinning the row cache's arena");
  if (!done.ok()) return done;
  pinned_arena_.reset(arena.data());
  void* on_device = nullptr;
  done = Check(cudaHostGetDevicePointer(&on_device, arena.data(), 0), "mapping the arena");
  if (!done.ok()) return done;
  arena_ = static_cast<const std::byte*>(on_device);
  part_tokens_ =
      static_cast<uint32_t>(std::min<size_t>(tables_->tokens_at_once(), kMostPartTokens));
  const NgramPlan& plan = path_->plan();
  const size_t address_bytes = size_t{part_tokens_} * plan.tables * sizeof(std::byte*);
  const size_t vector_bytes = size_t{part_tokens_} * plan.hidden * 2;
  const auto pinned = [](PinnedBuffer& buffer, size_t size_bytes) -> Result<void> {
    Result<PinnedBuffer> allocated = AllocatePinned(size_bytes);
    if (!allocated.ok()) return std::move(allocated.error());
    buffer = std::move(allocated).value();
    return {};
  };
  const auto device = [](DeviceBuffer& buffer, size_t size_bytes) -> Result<void> {
    Result<DeviceBuffer> allocated = AllocateDevice(size_bytes);
    if (!allocated.ok()) return std::move(allocated.error());
    buffer = std::move(allocated).value();
    return {};
  };
  done = pinned(row_addresses_, address_bytes);
  if (done.ok()) done = pinned(vectors_, vector_bytes);
  if (done.ok()) done = device(device_addresses_, address_bytes);
  if (done.ok()) done = device(device_vectors_, vector_bytes);
  if (done.ok()) done = device(workspace_, BatchWorkspaceBytes(part_tokens_, plan.hidden));
  if (!done.ok()) return done;
  Result<Stream> stream = CreateStream();
  if (!stream.ok()) return std::move(stream.error());
  stream_ = std::move(stream).value();
  Result<Event> event = CreateEvent();
  if (!event.ok()) return std::move(event.error());
  done_ = std::move(event).value();
  return {};
}

void NgramCached::FindRows(const RowCache::Pins& pins) {
  const std::byte* start = tables_->cache()->arena().data();
  auto* addresses = reinterpret_cast<const std::byte**>(row_addresses_.get());
  for (const uint32_t slot : pins.slots()) {
    *addresses++ = arena_ + (tables_->cache()->Row(slot) - start);
  }
}

// Tokens first .. of the batch, as many as `ids` has.
Result<void> NgramCached::EmbedPart(const NgramRequest& all, std::span<const uint32_t> ids,
                                    size_t first, std::span<float> out) {
  const NgramPlan& plan = path_->plan();
  RowCache::Pins pins;
  Result<void> done = tables_->Resolve(ids, pins);
  if (!done.ok()) return done;
  FindRows(pins);
  done =
      Check(cudaMemcpyAsync(device_addresses_.get(), row_addresses_.get(),
                            ids.size() * sizeof(std::byte*), cudaMemcpyHostToDevice, stream_.get()),
            "sending the rows' addresses");
  if (!done.ok()) return done;
  NgramRequest request = all;
  request.at = all.at + first;
  if (all.hidden != nullptr) request.hidden = all.hidden + first * plan.hidden;
  request.tokens = static_cast<uint32_t>(ids.size() / plan.tables);
  request.rows = reinterpret_cast<const std::byte* const*>(device_addresses_.get());
  request.workspace = reinterpret_cast<uint16_t*>(workspace_.get());
  auto* vectors = reinterpret_cast<uint16_t*>(device_vectors_.get());
  done = path_->Enqueue(request, vectors, stream_.get());
  if (done.ok()) done = Check(cudaEventRecord(done_.get(), stream_.get()), "recording an event");
  if (done.ok()) {
    done = Check(cudaMemcpyAsync(vectors_.get(), vectors, out.size() * 2, cudaMemcpyDeviceToHost,
                                 stream_.get()),
                 "copying");
  }
  // After an error the event may not have been recorded: then the stream says that nothing reads
  // the rows any more.
  const Result<void> gathered =
      Check(done.ok() ? cudaEventSynchronize(done_.get()) : cudaStreamSynchronize(stream_.get()),
            "gathering cached rows");
  pins.Release();
  if (!done.ok()) return done;
  if (!gathered.ok()) return gathered;
  done = Check(cudaStreamSynchronize(stream_.get()), "computing n-gram embeddings");
  if (!done.ok()) return done;
  Widen(reinterpret_cast<const uint16_t*>(vectors_.get()), out);
  return {};
}

Result<void> NgramCached::Embed(std::span<const NgramPiece> pieces, std::span<const float> hidden,
                                std::span<float> out) {
  const NgramPlan& plan = path_->plan();
  Result<NgramRequest> request = path_->Send(pieces, hidden, out.size());
  if (!request.ok()) return std::move(request.error());
  std::vector<uint32_t> ids(size_t{request.value().tokens} * plan.tables);
  size_t hashed = 0;
  for (const NgramPiece& piece : pieces) {
    const size_t count = piece.tokens.size() * plan.tables;
    hash_.Ids(piece.context, piece.tokens, std::span(ids).subspan(hashed, count));
    hashed += count;
  }
  for (size_t first = 0; first < request.value().tokens; first += part_tokens_) {
    const size_t count = std::min<size_t>(part_tokens_, request.value().tokens - first);
    Result<void> done =
        EmbedPart(request.value(), std::span(ids).subspan(first * plan.tables, count * plan.tables),
                  first, out.subspan(first * plan.hidden, count * plan.hidden));
    if (!done.ok()) return done;
  }
  return {};
}

}  // namespace sprat::gpu
