// The tensors of an n-gram embedding in a checkpoint, their shapes checked.
#ifndef SPRAT_NGRAM_NGRAM_TENSORS_H_
#define SPRAT_NGRAM_NGRAM_TENSORS_H_

#include <string>
#include <vector>

#include "model/safetensors.h"
#include "ngram/ngram_config.h"
#include "sprat/result.h"

namespace sprat {

// Views into `file`, valid as long as it.
struct NgramTensors {
  const TensorFile* file = nullptr;
  const Tensor* word = nullptr;       // E [V, H]; nullptr if it was not asked for
  std::vector<const Tensor*> tables;  // T_i [M_i padded, d]
  std::vector<const Tensor*> scales;  // of F8_E4M3 tables: one element or a row each; or nullptr
  std::vector<const Tensor*> projections;  // W_i [H, d]
  std::vector<std::string> table_names;
  std::vector<std::string> projection_names;
};

// Finds the tensors under either family of names, with or without "model." before them:
//   model.embed_tokens.weight
//   model.ngram_embeddings.embedders.{i}.weight, model.ngram_embeddings.post_projs.{i}.weight
//   model.oe_embed_tokens{i}.weight,             model.oe_embed_proj{i}.weight
// A scale is called like its table with "weight_scale" or "weight_scale_inv" in place of "weight".
// Errors: kCorrupt naming a tensor that is missing, or one whose shape or type of element does not
// fit the config, with what was found and what was expected.
Result<NgramTensors> FindNgramTensors(const TensorFile& file, const NgramConfig& config,
                                      bool word_table);

// Whether there is a tensor of word rows.
bool HasWordTable(const TensorFile& file);

}  // namespace sprat

#endif  // SPRAT_NGRAM_NGRAM_TENSORS_H_
