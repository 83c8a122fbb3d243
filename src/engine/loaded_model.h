// A model directory, read: what the engine needs of each family.
#ifndef SPRAT_ENGINE_LOADED_MODEL_H_
#define SPRAT_ENGINE_LOADED_MODEL_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/text_ids.h"
#include "gpu/gpu_encoder.h"
#include "model/config.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "sprat/engine.h"
#include "static_model/static_model.h"
#include "tokenizer/tokenizer.h"

namespace sprat {

// What Open of a family hands to the engine. Self-contained: it owns the mapped weights.
struct LoadedModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TensorFile> tensors;  // the model views weights in it, so it goes last
  std::unique_ptr<Model> model;
  gpu::GpuEncoder* gpu = nullptr;             // `model`, if it runs on a GPU
  const StaticModel* static_model = nullptr;  // `model`, if it is one
  size_t batch_tokens = 4096;  // large enough that weights read once serve many rows, small
                               // enough that a query that arrives meanwhile waits for little
  TextRule text_rule;
  bool sorts_by_length = true;  // texts of a window run in batches of equal lengths; false: as they
                                // come, where neither time nor memory depends on the company
  bool normalizes = true;       // unless EmbedOptions::normalize says otherwise
  SentenceConfig sentence;      // after the caller's options have been applied
  EngineInfo info;
  // Computes the model fingerprint. Errors: kIo.
  std::function<Result<std::string>()> fingerprint;
};

// How the tokenizer behaves with this option, for the fingerprint: what a text that contains
// "[SEP]" becomes is part of it.
inline std::string FullBehaviour(const Tokenizer& tokenizer, bool parse_special_tokens) {
  return tokenizer.Behaviour() + (parse_special_tokens ? "" : "\nspecial tokens in texts are text");
}

// Reads a BERT-family sentence encoder (spec of the files: docs/architecture.md).
// Errors: as the readers of its files; kCorrupt if the tokenizer can produce an id beyond the
// embedding table; kInvalidArgument for options the model cannot satisfy.
Result<LoadedModel> LoadEncoder(const std::filesystem::path& directory,
                                const EngineOptions& options);

// Reads a static model; see static_model/. Errors: as the readers of its files; kCorrupt if the
// tokenizer can produce an id that no row belongs to; kInvalidArgument for an option that static
// models do not have.
Result<LoadedModel> LoadStatic(const std::filesystem::path& directory,
                               const EngineOptions& options);

// True if the directory holds a static model: its checkpoint has the table of one. Errors: those of
// TensorFile, for a directory with a static model's files whose checkpoint cannot be read.
Result<bool> IsStatic(const std::filesystem::path& directory);

}  // namespace sprat

#endif  // SPRAT_ENGINE_LOADED_MODEL_H_
