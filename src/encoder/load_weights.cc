#include "encoder/load_weights.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace sprat {
namespace {

constexpr std::string_view kWordEmbeddings{"embeddings.word_embeddings.weight"};

// "encoder.layer.0.output.LayerNorm.weight" -> "...LayerNorm.gamma"; nullopt for other tensors.
std::optional<std::string> OldName(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
      {"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  for (const auto& [now, before] : kRenamed) {
    if (name.ends_with(now)) {
      return std::string(name.substr(0, name.size() - now.size())).append(before);
    }
  }
  return std::nullopt;
}

std::string ShapeText(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + ")";
}

Error Missing(const TensorFile& file, std::string_view name) {
  std::string message =
      file.path().string() + ": no tensor '" + std::string(name) + "', with or without a prefix of";
  for (const std::string_view prefix : kTensorPrefixes) {
    if (!prefix.empty()) message.append(" '").append(prefix).append("'");
  }
  message += "; the file has";
  size_t shown = 0;
  for (const auto& [existing, tensor] : file.tensors()) {
    if (++shown > 3) break;
    message += (shown == 1 ? " '" : ", '") + existing + "'";
  }
  if (file.tensors().empty()) message += " none";
  if (file.tensors().size() > 3) {
    message += " and " + std::to_string(file.tensors().size() - 3) + " more";
  }
  return Error(ErrorCode::kCorrupt, std::move(message));
}

// What a source remembers between two tensors.
struct Reading {
  const Tensor* previous = nullptr;
  std::vector<float> converted;
};

Result<SourceTensor> Read(const TensorFile& file, std::string_view name,
                          std::span<const uint64_t> shape, Reading& reading) {
  if (reading.previous != nullptr) file.Release(*std::exchange(reading.previous, nullptr));
  const Tensor* tensor = FindEncoderTensor(file, name);
  if (tensor == nullptr) return Missing(file, name);
  if (!std::ranges::equal(tensor->shape, shape)) {
    return Error(ErrorCode::kCorrupt, file.path().string() + ": tensor '" + std::string(name) +
                                          "' has shape " + ShapeText(tensor->shape) +
                                          ", expected " + ShapeText(shape));
  }
  const bool aligned = reinterpret_cast<uintptr_t>(tensor->bytes.data()) % alignof(float) == 0;
  if (tensor->dtype == DType::kF32 && aligned) {
    const bool stays = name == kWordEmbeddings;
    if (!stays) reading.previous = tensor;
    return SourceTensor{{reinterpret_cast<const float*>(tensor->bytes.data()), tensor->elements()},
                        stays};
  }
  reading.previous = tensor;
  reading.converted.resize(tensor->elements());
  Result<void> copied = CopyAsF32(*tensor, reading.converted);
  if (!copied.ok()) {
    return std::move(copied.error())
        .In(file.path().string() + ": tensor '" + std::string(name) + "'");
  }
  return SourceTensor{reading.converted, false};
}

}  // namespace

const Tensor* FindEncoderTensor(const TensorFile& file, std::string_view name) {
  const std::optional<std::string> old = OldName(name);
  for (const std::string_view prefix : kTensorPrefixes) {
    const Tensor* tensor = file.Find(std::string(prefix).append(name));
    if (tensor == nullptr && old.has_value()) tensor = file.Find(std::string(prefix).append(*old));
    if (tensor != nullptr) return tensor;
  }
  return nullptr;
}

TensorSource SourceOf(const TensorFile& file) {
  // std::function copies its callable: the copies share what was read last.
  const auto reading = std::make_shared<Reading>();
  return [&file, reading](std::string_view name, std::span<const uint64_t> shape) {
    return Read(file, name, shape, *reading);
  };
}

}  // namespace sprat
