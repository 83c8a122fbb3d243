// A published model's weights as the packing reads them.
#ifndef SPRAT_GPU_MODEL_FILE_FOR_TEST_H_
#define SPRAT_GPU_MODEL_FILE_FOR_TEST_H_

#include <filesystem>

#include "gpu/packing.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "sprat/result.h"

namespace sprat::gpu {

class ModelFile {
 public:
  static Result<ModelFile> Open(const std::filesystem::path& directory);

  const EncoderConfig& config() const { return config_; }
  // Valid as long as this object.
  ReadTensor Reader() const;

 private:
  ModelFile(const EncoderConfig& config, TensorFile file)
      : config_(config), file_(std::move(file)) {}

  EncoderConfig config_;
  TensorFile file_;
};

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_MODEL_FILE_FOR_TEST_H_
