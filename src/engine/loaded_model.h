// A model directory, read: what the engine needs of each family.
#ifndef SPRAT_ENGINE_LOADED_MODEL_H_
#define SPRAT_ENGINE_LOADED_MODEL_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "model/config.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "sprat/engine.h"
#include "tokenizer/tokenizer.h"

namespace sprat {

// What Open of a family hands to the engine. Self-contained: it owns the mapped weights.
struct LoadedModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TensorFile> tensors;  // the model views weights in it, so it goes last
  std::unique_ptr<Model> model;
  SentenceConfig sentence;  // after the caller's options have been applied
  EngineInfo info;
  // Computes the model fingerprint. Errors: kIo.
  std::function<Result<std::string>()> fingerprint;
};

// Reads a BERT-family sentence encoder (spec of the files: docs/architecture.md).
// Errors: as the readers of its files; kCorrupt if the tokenizer can produce an id beyond the
// embedding table; kInvalidArgument for options the model cannot satisfy.
Result<LoadedModel> LoadEncoder(const std::filesystem::path& directory,
                                const EngineOptions& options);

}  // namespace sprat

#endif  // SPRAT_ENGINE_LOADED_MODEL_H_
