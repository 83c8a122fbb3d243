// Stands in for ngram_gpu.cc in a build without nvcc.
#include <utility>

#include "gpu/gpu_encoder.h"
#include "sprat/ngram_gpu.h"

namespace sprat {

class NgramGpu::Impl {
 public:
  NgramInfo info;
  std::string name;
};

NgramGpu::NgramGpu(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NgramGpu::NgramGpu(NgramGpu&&) noexcept = default;
NgramGpu& NgramGpu::operator=(NgramGpu&&) noexcept = default;
NgramGpu::~NgramGpu() = default;

namespace {
Error Absent(int device) { return std::move(gpu::DescribeDevice(device).error()); }
}  // namespace

Result<NgramGpu> NgramGpu::Open(const std::filesystem::path& /*directory*/,
                                const NgramOptions& /*options*/, int device) {
  return Absent(device);
}

Result<void> NgramGpu::EmbedBatch(std::span<const NgramPiece> /*pieces*/,
                                  std::span<const float> /*word*/, std::span<float> /*out*/) {
  return Absent(0);
}

const NgramInfo& NgramGpu::info() const { return impl_->info; }
const std::string& NgramGpu::device_name() const { return impl_->name; }

}  // namespace sprat
