#include "gpu/plan.h"

#include <fmt/format.h>

namespace sprat::gpu {
namespace {

std::vector<Step> RowSteps(uint32_t layers, bool query) {
  std::vector<Step> steps;
  steps.push_back({Operation::kEmbed, 0, Matrix::kQkv, Buffer::kRequest, Buffer::kSum, 0});
  for (uint32_t l = 0; l < layers; ++l) {
    if (query) {
      steps.push_back(
          {Operation::kNormAttend, l, Matrix::kQkv, Buffer::kSum, Buffer::kContext, 2 * l});
    } else {
      steps.push_back({Operation::kNormLinear, l, Matrix::kQkv, Buffer::kSum, Buffer::kQkv, 2 * l});
      steps.push_back({Operation::kAttention, l, Matrix::kQkv, Buffer::kQkv, Buffer::kContext, 0});
    }
    steps.push_back(
        {Operation::kLinearResidual, l, Matrix::kOut, Buffer::kContext, Buffer::kSum, 0});
    steps.push_back(
        {Operation::kNormLinearGelu, l, Matrix::kUp, Buffer::kSum, Buffer::kInner, 2 * l + 1});
    steps.push_back(
        {Operation::kLinearResidual, l, Matrix::kDown, Buffer::kInner, Buffer::kSum, 0});
  }
  steps.push_back(
      {Operation::kNormPool, 0, Matrix::kQkv, Buffer::kSum, Buffer::kResult, 2 * layers});
  return steps;
}

std::vector<Step> TileSteps(uint32_t layers) {
  std::vector<Step> steps;
  steps.push_back({Operation::kEmbedNorm, 0, Matrix::kQkv, Buffer::kRequest, Buffer::kState, 0});
  for (uint32_t l = 0; l < layers; ++l) {
    steps.push_back({Operation::kLinear, l, Matrix::kQkv, Buffer::kOperand, Buffer::kQkv, 0});
    steps.push_back({Operation::kAttention, l, Matrix::kQkv, Buffer::kQkv, Buffer::kContext, 0});
    steps.push_back({Operation::kLinearResidualNorm, l, Matrix::kOut, Buffer::kContext,
                     Buffer::kState, 2 * l + 1});
    steps.push_back({Operation::kLinearGelu, l, Matrix::kUp, Buffer::kOperand, Buffer::kInner, 0});
    steps.push_back({Operation::kLinearResidualNorm, l, Matrix::kDown, Buffer::kInner,
                     Buffer::kState, 2 * l + 2});
  }
  steps.push_back({Operation::kPool, 0, Matrix::kQkv, Buffer::kState, Buffer::kResult, 0});
  return steps;
}

Error Unsupported(const char* key, uint64_t value, uint64_t supported) {
  return Error(
      ErrorCode::kUnsupported,
      fmt::format("{} is {}; the GPU kernels are compiled for {} (the CPU runs this model)", key,
                  value, supported));
}

}  // namespace

std::vector<Step> PlanSteps(Path path, uint32_t layers) {
  return path == Path::kTile ? TileSteps(layers) : RowSteps(layers, path == Path::kQuery);
}

Result<void> CheckShape(const EncoderConfig& config) {
  if (config.hidden != kHidden) return Unsupported("hidden_size", config.hidden, kHidden);
  if (config.heads != kHeads) return Unsupported("num_attention_heads", config.heads, kHeads);
  if (config.ffn != kFfn) return Unsupported("intermediate_size", config.ffn, kFfn);
  if (config.layers == 0) return Unsupported("num_hidden_layers", 0, 1);
  if (config.activation != Activation::kGelu) {
    return Error(ErrorCode::kUnsupported,
                 "hidden_act is not \"gelu\", the only one the GPU kernels have (the CPU runs this "
                 "model)");
  }
  return {};
}

}  // namespace sprat::gpu
