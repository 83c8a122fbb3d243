// The public interface over the layer.
#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

#include "base/cpu_budget.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "model/safetensors.h"
#include "ngram/dispatch.h"
#include "ngram/ngram_layer.h"
#include "sprat/ngram.h"

namespace sprat {
namespace {

constexpr size_t kMostConfigBytes{16 << 20};

Result<NgramConfig> ReadConfig(const std::filesystem::path& directory,
                               const NgramOptions& options) {
  const std::filesystem::path path = directory / "config.json";
  Result<std::string> text = ReadFile(path, kMostConfigBytes);
  if (!text.ok()) return std::move(text.error());
  Result<std::optional<NgramConfig>> config =
      ParseNgramConfig(path.string(), text.value(),
                       {.scale = options.scale, .ignored_tokens = options.ignored_tokens});
  if (!config.ok()) return std::move(config.error());
  if (config.value()) return *std::move(config.value());
  return Error(ErrorCode::kUnsupported,
               path.string() +
                   ": no n-gram embedding: expected ngram_vocab_size_ratio, emb_neighbor_num and "
                   "emb_split_num, or oe_vocab_size_ratio, oe_neighbor_num and oe_split_num");
}

}  // namespace

class NgramEmbedding::Impl {
 public:
  static Result<std::unique_ptr<Impl>> Open(const std::filesystem::path& directory,
                                            const NgramOptions& options) {
    auto impl = std::make_unique<Impl>();
    Result<const NgramKernels*> kernels = ActiveNgramKernels();
    if (!kernels.ok()) return std::move(kernels.error());
    Result<NgramConfig> config = ReadConfig(directory, options);
    if (!config.ok()) return std::move(config.error());
    Result<TensorFile> file = TensorFile::OpenDirectory(directory);
    if (!file.ok()) return std::move(file.error());
    impl->file_ = std::move(file).value();
    Result<NgramTensors> tensors =
        FindNgramTensors(impl->file_, config.value(), options.word_table);
    if (!tensors.ok()) return std::move(tensors.error());
    Result<std::unique_ptr<ThreadPool>> threads =
        ThreadPool::Create(options.threads > 0 ? options.threads : CpuBudget());
    if (!threads.ok()) return std::move(threads.error());
    impl->threads_ = std::move(threads).value();
    Result<std::unique_ptr<NgramLayer>> layer = NgramLayer::Load(
        config.value(), tensors.value(), options, *kernels.value(), *impl->threads_);
    if (!layer.ok()) return std::move(layer.error());
    impl->layer_ = std::move(layer).value();
    impl->Describe(directory, *tensors.value().tables[0]);
    return impl;
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
  void Describe(const std::filesystem::path& directory, const Tensor& table) {
    const NgramConfig& config = layer_->config();
    const RowTables& tables = layer_->tables();
    info_.directory = directory;
    info_.vocabulary = config.vocabulary;
    info_.hidden = config.hidden;
    info_.max_order = config.max_order;
    info_.splits = config.splits;
    info_.tables = config.tables();
    info_.width = config.width();
    uint64_t stored_rows = 0;
    for (uint32_t i = 0; i < config.tables(); ++i) {
      info_.rows += config.rows(i);
      stored_rows += config.stored_rows(i);
    }
    info_.eos = config.eos;
    info_.scale = config.scale;
    info_.form = tables.form();
    info_.table_dtype = Name(table.dtype);
    info_.row_bytes = tables.row_bytes();
    info_.table_bytes = stored_rows * tables.row_bytes();
    info_.resident_bytes = layer_->resident_bytes();
    info_.token_bytes = config.tables() * tables.row_bytes();
    if (tables.cache() != nullptr) {
      info_.cache_slots = tables.cache()->slots();
      info_.reader = tables.cache()->reader().name();
    }
    info_.kernels = layer_->kernels().name;
    info_.threads = threads_->size();
  }

  TensorFile file_;
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
