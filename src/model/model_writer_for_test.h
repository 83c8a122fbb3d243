// Writes safetensors files and whole model directories for tests, with weights drawn from a seed.
#ifndef SPRAT_MODEL_MODEL_WRITER_FOR_TEST_H_
#define SPRAT_MODEL_MODEL_WRITER_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/config.h"
#include "model/safetensors.h"

namespace sprat {

// A tensor to write: f32 values, stored as `dtype` (F32; F16 and BF16 round to nearest even; I64).
struct TestTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values = {};
  DType dtype = DType::kF32;
};

// The bytes of a safetensors file with `tensors` in their order.
std::string SafetensorsBytes(const std::vector<TestTensor>& tensors);

// The bytes of a safetensors file with this header, well-formed or not, followed by `data`.
std::string RawSafetensors(std::string_view header, std::string_view data = "");

// Writes a file, replacing it and making its directory; aborts the test program if it cannot.
void WriteTestFile(const std::filesystem::path& path, std::string_view content);

// A new empty directory under the system's temporary one, its name starting with `name`; removed
// with everything in it when the program ends.
std::filesystem::path NewTestDirectory(std::string_view name);

// A sentence-transformers directory of a BERT encoder, small unless told otherwise. Alter the
// fields, then Write.
//
//   TinyModel model;
//   model.pooling = {Pooling::kCls};
//   const std::filesystem::path directory = model.Write();
//
// The same fields give the same files. Weights are k * 2^-9 for whole k, |k| <= 127, LayerNorm
// weights 1 + k * 2^-7, |k| <= 32: exact in F32, F16 and BF16, so that storage changes no value.
struct TinyModel {
  // Vocabulary rows: 0 means as many as the vocabulary has entries.
  EncoderConfig config = {.layers = 2,
                          .hidden = 32,
                          .heads = 4,
                          .ffn = 64,
                          .vocabulary = 0,
                          .positions = 64,
                          .token_types = 2};
  uint64_t seed = 1;

  // Weights.
  DType dtype = DType::kF32;
  std::string prefix = {};      // before every tensor's name: "", "bert."
  bool gamma_beta = false;      // LayerNorm.gamma and .beta instead of .weight and .bias
  bool unused_tensors = false;  // position_ids, a pooler and a head as well
  size_t shards = 1;            // above 1: model-0000i-of-0000n.safetensors and the index
  bool write_weights = true;
  // Called with every tensor (its name without prefix, LayerNorm as weight and bias) before it is
  // written: for a test that wants certain values.
  std::function<void(TestTensor&)> edit = {};

  // Tokenizer. The default vocabulary is TinyVocabulary(); a line of vocab.txt an id.
  std::vector<std::string> vocabulary = {};
  bool vocab_txt = true;        // vocab.txt and tokenizer_config.json
  bool tokenizer_json = false;  // an equivalent tokenizer.json
  bool lowercase = true;

  // Sentence files. nullopt: the file is not written.
  bool modules_json = true;
  std::vector<Pooling> pooling = {Pooling::kMean};  // flags that are true in 1_Pooling/config.json
  bool pooling_folder = true;
  bool normalize = true;
  std::optional<uint32_t> max_sequence = {};  // max_seq_length of sentence_bert_config.json
  std::map<std::string, std::string> prompts = {};
  std::optional<std::string> default_prompt_name = {};

  // Entries of config.json to set or replace, as JSON text; an empty text removes the key.
  std::map<std::string, std::string> config_json = {};

  // The encoder's tensors, canonical names, f32, before prefix and storage type.
  std::vector<TestTensor> Tensors() const;

  // Writes everything into `directory`, made if need be; Write() into a new test directory.
  void Write(const std::filesystem::path& directory) const;
  std::filesystem::path Write() const;
};

// [PAD] [UNK] [CLS] [SEP] [MASK], the letters, digits and common punctuation alone and, for letters
// and digits, as ##pieces, and a few words: good morning world river bank query passage word rain
// bow. Any ASCII word of letters and digits has pieces.
std::vector<std::string> TinyVocabulary();

// The entries of a vocab.txt, one a line.
std::vector<std::string> ReadVocabulary(const std::filesystem::path& vocab_txt);

// `text` as a JSON string, quotes included.
std::string JsonQuoted(std::string_view text);

}  // namespace sprat

#endif  // SPRAT_MODEL_MODEL_WRITER_FOR_TEST_H_
