#include "gpu/ngram_graphs.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sprat::gpu {

Result<void> NgramGraphs::Allocate() {
  if (device_vectors_ != nullptr) return {};
  const size_t request_bytes = RequestWords(kMostTokens) * 4;
  const size_t vector_bytes = size_t{kMostTokens} * hidden_ * 2;
  Result<PinnedBuffer> pinned = AllocatePinned(request_bytes);
  if (!pinned.ok()) return std::move(pinned.error());
  request_ = std::move(pinned).value();
  pinned = AllocatePinned(vector_bytes);
  if (!pinned.ok()) return std::move(pinned.error());
  vectors_ = std::move(pinned).value();
  Result<DeviceBuffer> device = AllocateDevice(request_bytes);
  if (!device.ok()) return std::move(device.error());
  device_request_ = std::move(device).value();
  device = AllocateDevice(vector_bytes);
  if (!device.ok()) return std::move(device.error());
  device_vectors_ = std::move(device).value();
  return {};
}

Result<void> NgramGraphs::EnqueueAll(uint32_t bucket, const EnqueueKernels& enqueue,
                                     cudaStream_t queue) {
  Result<void> done =
      Check(cudaMemcpyAsync(device_request_.get(), request_.get(), RequestWords(bucket) * 4,
                            cudaMemcpyHostToDevice, queue),
            "sending a batch to the device");
  if (!done.ok()) return done;
  NgramRequest request;
  request.at = reinterpret_cast<const uint32_t*>(device_request_.get());
  request.stream = request.at + bucket;
  request.tokens = bucket;
  done = enqueue(request, reinterpret_cast<uint16_t*>(device_vectors_.get()), queue);
  if (!done.ok()) return done;
  return Check(cudaMemcpyAsync(vectors_.get(), device_vectors_.get(), size_t{bucket} * hidden_ * 2,
                               cudaMemcpyDeviceToHost, queue),
               "copying");
}

Result<void> NgramGraphs::Capture(uint32_t bucket, const EnqueueKernels& enqueue,
                                  cudaStream_t queue) {
  Result<void> done =
      Check(cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal), "capturing a graph");
  if (!done.ok()) return done;
  const Result<void> enqueued = EnqueueAll(bucket, enqueue, queue);
  cudaGraph_t captured = nullptr;
  done = Check(cudaStreamEndCapture(queue, &captured), "capturing a graph");
  const Graph graph(captured);
  if (!enqueued.ok()) return enqueued;
  if (!done.ok()) return done;
  cudaGraphExec_t executable = nullptr;
  done = Check(cudaGraphInstantiate(&executable, graph.get(), 0), "instantiating a graph");
  if (!done.ok()) return done;
  graphs_[bucket] = GraphExec(executable);
  return {};
}

Result<const uint16_t*> NgramGraphs::Run(std::span<const uint32_t> stream,
                                         std::span<const uint32_t> at,
                                         const EnqueueKernels& enqueue, cudaStream_t queue) {
  const auto tokens = static_cast<uint32_t>(at.size());
  CHECK(tokens > 0 && tokens <= kMostTokens && stream.size() <= size_t{tokens} * order_);
  Result<void> done = Allocate();
  const uint32_t bucket = BucketOf(tokens);
  if (done.ok() && graphs_.count(bucket) == 0) done = Capture(bucket, enqueue, queue);
  if (!done.ok()) return std::move(done.error());
  auto* words = reinterpret_cast<uint32_t*>(request_.get());
  std::copy(at.begin(), at.end(), words);
  std::fill(words + tokens, words + bucket, at[0]);
  std::copy(stream.begin(), stream.end(), words + bucket);
  done = Check(cudaGraphLaunch(graphs_.at(bucket).get(), queue), "launching a graph");
  if (done.ok()) done = Check(cudaStreamSynchronize(queue), "computing n-gram embeddings");
  if (!done.ok()) return std::move(done.error());
  return reinterpret_cast<const uint16_t*>(vectors_.get());
}

}  // namespace sprat::gpu
