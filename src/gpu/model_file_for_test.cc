#include "gpu/model_file_for_test.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sprat::gpu {

Result<ModelFile> ModelFile::Open(const std::filesystem::path& directory) {
  Result<EncoderConfig> config = ReadEncoderConfig(directory);
  if (!config.ok()) return std::move(config.error());
  Result<TensorFile> file = TensorFile::OpenDirectory(directory);
  if (!file.ok()) return std::move(file.error());
  return ModelFile(config.value(), std::move(file).value());
}

ReadTensor ModelFile::Reader() const {
  return [this](std::string_view name, std::span<const uint64_t> shape,
                std::span<float> out) -> Result<void> {
    const Tensor* tensor = file_.Find(name);
    if (tensor == nullptr || !std::ranges::equal(tensor->shape, shape)) {
      return Error(ErrorCode::kCorrupt, std::string(name) + ": absent or of another shape");
    }
    return CopyAsF32(*tensor, out);
  };
}

}  // namespace sprat::gpu
