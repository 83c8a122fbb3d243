// A BERT of 12 layers with CLS pooling against what Hugging Face transformers computes for it.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/reference_for_test.h"
#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

// Lines of "length, ids, vector": see tools/make_bert_reference.py, which has the same numbers.
TEST(Bert12, AgreesWithTransformers) {
  TinyModel model;
  model.config = {.layers = 12,
                  .hidden = 48,
                  .heads = 3,
                  .ffn = 192,
                  .vocabulary = 90,
                  .positions = 64,
                  .token_types = 2};
  model.seed = 7;
  const ReferenceEncoder reference(model.config, model.Tensors());
  const auto encoder =
      Encoder::Create(model.config, {.pooling = Pooling::kCls, .threads = 2}, reference.Source())
          .value();
  std::ifstream file(SPRAT_TESTDATA "/encoder/bert12_cls.txt");
  size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    size_t length = 0;
    fields >> length;
    std::vector<uint32_t> ids(length);
    for (uint32_t& id : ids) fields >> id;
    TokenBatch batch;
    batch.Append(ids);
    std::vector<float> got(48, NAN);
    ASSERT_TRUE(encoder->Embed(batch, {}, {got.data(), 1, 48}).ok());
    for (const float value : got) {
      double expected = NAN;
      fields >> expected;
      ASSERT_NEAR(value, expected, 5e-6) << "length " << length;
    }
    ASSERT_TRUE(fields.good() || fields.eof());
    ++compared;
  }
  EXPECT_EQ(compared, 7u);
}

}  // namespace
}  // namespace sprat
