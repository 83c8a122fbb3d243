// The public interface over NgramPath.
#include "sprat/ngram_gpu.h"

#include <utility>

#include "base/cpu_budget.h"
#include "base/thread_pool.h"
#include "gpu/device.h"
#include "gpu/gpu_encoder.h"
#include "gpu/ngram_cached.h"
#include "gpu/ngram_path.h"
#include "gpu/ngram_weights.h"
#include "ngram/ngram_files.h"
#include "ngram/row_tables.h"

namespace sprat {

class NgramGpu::Impl {
 public:
  static Result<std::unique_ptr<Impl>> Open(const std::filesystem::path& directory,
                                            NgramOptions options, int device) {
    auto impl = std::make_unique<Impl>();
    Result<std::string> name = gpu::DescribeDevice(device);
    if (!name.ok()) return std::move(name.error());
    impl->device_ = device;
    impl->name_ = std::move(name).value();
    Result<void> chosen = gpu::UseDevice(device);
    if (!chosen.ok()) return std::move(chosen.error());
    Result<NgramFiles> files = OpenNgramFiles(directory, options);
    if (!files.ok()) return std::move(files.error());
    impl->files_ = std::move(files).value();
    if (options.tables == NgramTables::kResident) options.tables = NgramTables::kMapped;
    Result<std::unique_ptr<ThreadPool>> threads =
        ThreadPool::Create(options.threads > 0 ? options.threads : CpuBudget());
    if (!threads.ok()) return std::move(threads.error());
    Result<RowTables> tables =
        RowTables::Load(impl->files_.config, impl->files_.tensors, options, *threads.value());
    if (!tables.ok()) return std::move(tables.error());
    impl->info_ = DescribeNgram(directory, impl->files_, tables.value());
    impl->info_.kernels = "cuda";
    Result<void> opened = impl->OpenPath(std::move(tables).value());
    if (!opened.ok()) return std::move(opened.error());
    return impl;
  }

  Result<void> Embed(std::span<const NgramPiece> pieces, std::span<const float> word,
                     std::span<float> out) {
    Result<void> chosen = gpu::UseDevice(device_);  // the calling thread may have had another
    if (!chosen.ok()) return chosen;
    return cached_ != nullptr ? cached_->Embed(pieces, word, out) : path_->Embed(pieces, word, out);
  }

  const NgramInfo& info() const { return info_; }
  const std::string& name() const { return name_; }

 private:
  // Cached tables stay open; others are on the device now.
  Result<void> OpenPath(RowTables tables) {
    if (tables.cache() != nullptr) {
      tables_ = std::make_unique<RowTables>(std::move(tables));
      Result<std::unique_ptr<gpu::NgramCached>> cached =
          gpu::NgramCached::Open(files_.config, files_.tensors, *tables_);
      if (!cached.ok()) return std::move(cached.error());
      cached_ = std::move(cached).value();
      return {};
    }
    Result<gpu::NgramWeights> weights =
        gpu::NgramWeights::Load(files_.config, files_.tensors, tables);
    if (!weights.ok()) return std::move(weights.error());
    Result<std::unique_ptr<gpu::NgramPath>> path = gpu::NgramPath::Open(std::move(weights).value());
    if (!path.ok()) return std::move(path.error());
    path_ = std::move(path).value();
    files_ = {};
    return {};
  }

  int device_ = 0;
  std::string name_;
  NgramInfo info_;
  NgramFiles files_;
  std::unique_ptr<RowTables> tables_;  // if cached
  std::unique_ptr<gpu::NgramPath> path_;
  std::unique_ptr<gpu::NgramCached> cached_;  // in place of path_
};

NgramGpu::NgramGpu(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NgramGpu::NgramGpu(NgramGpu&&) noexcept = default;
NgramGpu& NgramGpu::operator=(NgramGpu&&) noexcept = default;
NgramGpu::~NgramGpu() = default;

Result<NgramGpu> NgramGpu::Open(const std::filesystem::path& directory, const NgramOptions& options,
                                int device) {
  Result<std::unique_ptr<Impl>> impl = Impl::Open(directory, options, device);
  if (!impl.ok()) return std::move(impl.error());
  return NgramGpu(std::move(impl).value());
}

Result<void> NgramGpu::EmbedBatch(std::span<const NgramPiece> pieces, std::span<const float> word,
                                  std::span<float> out) {
  return impl_->Embed(pieces, word, out);
}

const NgramInfo& NgramGpu::info() const { return impl_->info(); }
const std::string& NgramGpu::device_name() const { return impl_->name(); }

}  // namespace sprat
