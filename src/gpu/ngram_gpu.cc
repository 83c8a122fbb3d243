// The public interface over NgramPath.
#include "sprat/ngram_gpu.h"

#include <utility>

#include "base/cpu_budget.h"
#include "base/thread_pool.h"
#include "gpu/device.h"
#include "gpu/gpu_encoder.h"
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
    if (options.tables == NgramTables::kResident) options.tables = NgramTables::kMapped;
    Result<std::unique_ptr<ThreadPool>> threads =
        ThreadPool::Create(options.threads > 0 ? options.threads : CpuBudget());
    if (!threads.ok()) return std::move(threads.error());
    Result<RowTables> tables =
        RowTables::Load(files.value().config, files.value().tensors, options, *threads.value());
    if (!tables.ok()) return std::move(tables.error());
    Result<gpu::NgramWeights> weights =
        gpu::NgramWeights::Load(files.value().config, files.value().tensors, tables.value());
    if (!weights.ok()) return std::move(weights.error());
    Result<std::unique_ptr<gpu::NgramPath>> path = gpu::NgramPath::Open(std::move(weights).value());
    if (!path.ok()) return std::move(path.error());
    impl->path_ = std::move(path).value();
    impl->info_ = DescribeNgram(directory, files.value(), tables.value());
    impl->info_.kernels = "cuda";
    return impl;
  }

  // The calling thread may have had another device.
  Result<gpu::NgramPath*> Path() {
    Result<void> chosen = gpu::UseDevice(device_);
    if (!chosen.ok()) return std::move(chosen.error());
    return path_.get();
  }

  const NgramInfo& info() const { return info_; }
  const std::string& name() const { return name_; }

 private:
  int device_ = 0;
  std::string name_;
  std::unique_ptr<gpu::NgramPath> path_;
  NgramInfo info_;
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
  Result<gpu::NgramPath*> path = impl_->Path();
  if (!path.ok()) return std::move(path.error());
  return path.value()->Embed(pieces, word, out);
}

const NgramInfo& NgramGpu::info() const { return impl_->info(); }
const std::string& NgramGpu::device_name() const { return impl_->name(); }

}  // namespace sprat
