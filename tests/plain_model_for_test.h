// A model whose vectors can be worked out by hand.
#ifndef SPRAT_TESTS_PLAIN_MODEL_FOR_TEST_H_
#define SPRAT_TESTS_PLAIN_MODEL_FOR_TEST_H_

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "model/model_writer_for_test.h"

namespace sprat {

// One layer, one head, 32 columns. All linear layers are zero, norms have weight 1 and bias 0,
// positions and token types are zero; so a token's last hidden state is its word embedding,
// normalised three times. Those of "good morning" have mean 0 and variance 1 already, and are not
// changed; they repeat these four values:
//   [CLS]     1 -1  1 -1
//   good      1  1 -1 -1
//   morning   1 -1 -1  1
//   [SEP]    -1 -1  1  1
inline TinyModel PlainModel() {
  TinyModel model;
  model.config.layers = 1;
  model.config.heads = 1;
  const std::vector<std::string> vocabulary = TinyVocabulary();
  model.edit = [vocabulary](TestTensor& tensor) {
    const bool norm_weight = tensor.name.ends_with("LayerNorm.weight");
    std::fill(tensor.values.begin(), tensor.values.end(), norm_weight ? 1.0f : 0.0f);
    if (tensor.name != "embeddings.word_embeddings.weight") return;
    const std::map<std::string, std::vector<float>> rows = {{"[CLS]", {1, -1, 1, -1}},
                                                            {"good", {1, 1, -1, -1}},
                                                            {"morning", {1, -1, -1, 1}},
                                                            {"[SEP]", {-1, -1, 1, 1}}};
    const size_t hidden = tensor.shape[1];
    for (size_t id = 0; id < vocabulary.size(); ++id) {
      const auto row = rows.find(vocabulary[id]);
      if (row == rows.end()) continue;
      for (size_t i = 0; i < hidden; ++i) tensor.values[id * hidden + i] = row->second[i % 4];
    }
  };
  return model;
}

}  // namespace sprat

#endif  // SPRAT_TESTS_PLAIN_MODEL_FOR_TEST_H_
