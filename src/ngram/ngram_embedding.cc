// The public interface over the layer.
#include <utility>

#include "base/cpu_budget.h"
#include "base/thread_pool.h"
#include "ngram/dispatch.h"
#include "ngram/ngram_files.h"
#include "ngram/ngram_layer.h"
#include "sprat/ngram.h"

namespace sprat {

class NgramEmbedding::Impl {
 public:
  static Result<std::unique_ptr<Impl>> Open(const std::filesystem::path& directory,
                                            const NgramOptions& options) {
    auto impl = std::make_unique<Impl>();
    Result<const NgramKernels*> kernels = ActiveNgramKernels();
    if (!kernels.ok()) return std::move(kernels.error());
    Result<NgramFiles> files = OpenNgramFiles(directory, options);
    if (!files.ok()) return std::move(files.error());
    impl->files_ = std::move(files).value();
    Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::Create(ThreadsOf(options));
    if (!threads.ok()) return std::move(threads.error());
    impl->threads_ = std::move(threads).value();
    Result<std::unique_ptr<NgramLayer>> layer = NgramLayer::Load(
        impl->files_.config, impl->files_.tensors, options, *kernels.value(), *impl->threads_);
    if (!layer.ok()) return std::move(layer.error());
    impl->layer_ = std::move(layer).value();
    impl->info_ = DescribeNgram(directory, impl->files_, impl->layer_->tables());
    impl->info_.resident_bytes = impl->layer_->resident_bytes();
    impl->info_.kernels = kernels.value()->name;
    impl->info_.threads = impl->threads_->size();
    return impl;
  }

  static Result<NgramInfo> Describe(const std::filesystem::path& directory,
                                    const NgramOptions& options) {
    Result<const NgramKernels*> kernels = ActiveNgramKernels();
    if (!kernels.ok()) return std::move(kernels.error());
    Result<NgramFiles> files = OpenNgramFiles(directory, options);
    if (!files.ok()) return std::move(files.error());
    const NgramConfig& config = files.value().config;
    Result<RowLayout> layout = RowLayout::Of(config, files.value().tensors, options);
    if (!layout.ok()) return std::move(layout.error());
    NgramInfo info = DescribeNgram(directory, files.value(), layout.value());
    if (info.form == NgramTables::kCached) {
      Result<std::unique_ptr<ReadQueue>> queue =
          OpenReadQueue(ReadQueueDepth(options), options.io_uring);
      if (!queue.ok()) return std::move(queue.error());
      info.reader = queue.value()->name();
    }
    info.resident_bytes = layout.value().resident_bytes + PackedProjection::SizeBytes(config);
    info.kernels = kernels.value()->name;
    info.threads = ThreadsOf(options);
    return info;
  }

  NgramLayer& layer() const { return *layer_; }
  const NgramInfo& info() const { return info_; }

  NgramCounters Counters() const {
    NgramCounters all;
    const RowCache* cache = layer_->tables().cache();
    if (cache == nullptr) return all;
    const RowCache::Counters rows = cache->counters();
    const RowReader::Counters reads = cache->reader().counters();
    return {.hits = rows.hits,
            .misses = rows.misses,
            .evictions = rows.evictions,
            .reads = reads.reads,
            .read_bytes = reads.read_bytes,
            .retries = reads.retries,
            .failures = rows.failures,
            .queue_depth = reads.queue_depth};
  }

 private:
  static size_t ThreadsOf(const NgramOptions& options) {
    return options.threads > 0 ? options.threads : CpuBudget();
  }

  NgramFiles files_;
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<NgramLayer> layer_;
  NgramInfo info_;
};

NgramEmbedding::NgramEmbedding(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NgramEmbedding::NgramEmbedding(NgramEmbedding&&) noexcept = default;
NgramEmbedding& NgramEmbedding::operator=(NgramEmbedding&&) noexcept = default;
NgramEmbedding::~NgramEmbedding() = default;

Result<NgramEmbedding> NgramEmbedding::Open(const std::filesystem::path& directory,
                                            const NgramOptions& options) {
  Result<std::unique_ptr<Impl>> impl = Impl::Open(directory, options);
  if (!impl.ok()) return std::move(impl.error());
  return NgramEmbedding(std::move(impl).value());
}

Result<NgramInfo> NgramEmbedding::Describe(const std::filesystem::path& directory,
                                           const NgramOptions& options) {
  return Impl::Describe(directory, options);
}

Result<void> NgramEmbedding::Ids(std::span<const NgramPiece> pieces,
                                 std::span<uint32_t> ids) const {
  return impl_->layer().Ids(pieces, ids);
}

Result<void> NgramEmbedding::Embed(std::span<const uint32_t> context,
                                   std::span<const uint32_t> tokens, std::span<float> out) const {
  const NgramPiece piece{.context = context, .tokens = tokens};
  return impl_->layer().Embed({&piece, 1}, {}, out);
}

Result<void> NgramEmbedding::EmbedBatch(std::span<const NgramPiece> pieces,
                                        std::span<const float> word, std::span<float> out) const {
  return impl_->layer().Embed(pieces, word, out);
}

Result<void> NgramEmbedding::Prefetch(std::span<const NgramPiece> pieces) const {
  return impl_->layer().Prefetch(pieces);
}

const NgramInfo& NgramEmbedding::info() const { return impl_->info(); }

NgramCounters NgramEmbedding::counters() const { return impl_->Counters(); }

}  // namespace sprat
