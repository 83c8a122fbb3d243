// Small n-gram models on disk, and what they must answer in double precision.
#ifndef SPRAT_NGRAM_TINY_NGRAM_FOR_TEST_H_
#define SPRAT_NGRAM_TINY_NGRAM_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/model_writer_for_test.h"

namespace sprat {

// Alter the fields, then Write. The same fields give the same files. Values are bf16, so that
// storage changes none.
struct TinyNgram {
  uint32_t vocabulary = 60;
  uint32_t hidden = 24;
  double ratio = 7.5;
  uint32_t neighbours = 3;
  uint32_t splits = 2;
  uint32_t eos = 2;
  uint32_t row_multiple = 1;
  uint64_t seed = 1;
  std::map<std::string, std::string> config_json;  // further entries, as JSON text

  bool newer_names = false;
  bool bare_names = false;  // without "model." before them
  DType dtype = DType::kBF16;
  size_t shards = 1;
  bool write_word = true;
  std::map<std::string, std::vector<uint64_t>> shapes;  // of tensors that are written wrongly
  std::map<std::string, DType> dtypes;                  // of tensors that are not `dtype`

  std::vector<float> word;                      // V x H; drawn by Draw, like the rest
  std::vector<std::vector<float>> tables;       // M_i x d
  std::vector<std::vector<float>> projections;  // H x d

  uint32_t count() const { return splits * (neighbours - 1); }
  uint32_t width() const { return hidden / count(); }
  uint64_t rows(uint32_t i) const;
  uint64_t stored_rows(uint32_t i) const;
  std::string TableName(uint32_t i) const;
  std::string ProjectionName(uint32_t i) const;

  // Fills word, tables and projections.
  void Draw();
  // Writes config.json and the weights into a new directory; draws first if that was not done.
  std::filesystem::path Write();
};

// How the reference combines the word row and the sum of the projected rows.
enum class ReferenceScale { kAverage, kFixed, kFull };

// The vectors (T x H) of a whole sequence in double precision, written from the definitions: every
// position looks back over the sequence itself and stops at the tokens of `stops`.
std::vector<double> ReferenceVectors(const TinyNgram& model, const std::vector<uint32_t>& sequence,
                                     const std::set<uint32_t>& stops, ReferenceScale scale);

}  // namespace sprat

#endif  // SPRAT_NGRAM_TINY_NGRAM_FOR_TEST_H_
