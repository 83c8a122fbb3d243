#include "encoder/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "encoder/reference_for_test.h"

// Counts what this program allocates, so that a test can say "nothing".
namespace {
std::atomic<size_t> allocations{0};
}
void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace sprat {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocabulary{90};

// Sequences of the given lengths with ids drawn from a fixed stream.
TokenBatch BatchOf(const std::vector<size_t>& lengths) {
  TokenBatch batch;
  uint32_t id = 17;
  for (const size_t length : lengths) {
    std::vector<uint32_t> ids(length);
    for (uint32_t& token : ids) token = id = (id * 29 + 11) % kVocabulary;
    batch.Append(ids);
  }
  return batch;
}

TinyModel ModelOf(const EncoderConfig& config) {
  TinyModel model;
  model.config = config;
  model.config.vocabulary = kVocabulary;
  return model;
}

std::unique_ptr<Encoder> Open(const TinyModel& model, const ReferenceEncoder& reference,
                              const EncoderOptions& options) {
  return Encoder::Create(model.config, options, reference.Source()).value();
}

std::vector<float> Embed(Encoder& encoder, const TokenBatch& batch, const OutputForm& form = {},
                         size_t columns = 0) {
  if (columns == 0) columns = encoder.dimensions();
  std::vector<float> out(batch.sequences() * columns, NAN);
  EXPECT_TRUE(encoder.Embed(batch, form, {out.data(), batch.sequences(), columns}).ok());
  return out;
}

void ExpectNear(const std::vector<float>& got, size_t row, const std::vector<double>& want) {
  for (size_t c = 0; c < want.size(); ++c) {
    ASSERT_NEAR(got[row * want.size() + c], want[c], 3e-6) << "row " << row << " column " << c;
  }
}

// Widths, heads and lengths that fill no vector, panel or tile, and the usual ones.
TEST(Encoder, AgreesWithTheReferenceForAnyShape) {
  const EncoderConfig shapes[] = {
      {.layers = 2, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64},
      {.layers = 1, .hidden = 21, .heads = 3, .ffn = 50, .positions = 40},
      {.layers = 1, .hidden = 96, .heads = 3, .ffn = 130, .positions = 40},
      {.layers = 3, .hidden = 128, .heads = 2, .ffn = 49, .positions = 40},
      {.layers = 1, .hidden = 7, .heads = 1, .ffn = 1, .positions = 40},
  };
  const TokenBatch batch = BatchOf({1, 2, 7, 8, 9, 16, 17, 33, 40});
  for (const EncoderConfig& shape : shapes) {
    const TinyModel model = ModelOf(shape);
    const ReferenceEncoder reference(model.config, model.Tensors());
    const auto encoder = Open(model, reference, {.threads = 2});
    const std::vector<float> got = Embed(*encoder, batch);
    for (size_t i = 0; i < batch.sequences(); ++i) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectNear(got, i, reference.Embed(batch.Sequence(i), Pooling::kMean)))
          << "H=" << shape.hidden << " sequence " << i;
    }
  }
}

TEST(Encoder, AgreesWithTheReferenceForEveryActivationAndPooling) {
  for (const Activation activation :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    TinyModel model = ModelOf({.layers = 2, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
    model.config.activation = activation;
    const ReferenceEncoder reference(model.config, model.Tensors());
    const TokenBatch batch = BatchOf({5, 1, 20});
    for (const Pooling pooling :
         {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLen,
          Pooling::kWeightedMean, Pooling::kLastToken}) {
      const auto encoder = Open(model, reference, {.pooling = pooling, .threads = 1});
      const std::vector<float> got = Embed(*encoder, batch);
      for (size_t i = 0; i < batch.sequences(); ++i) {
        ASSERT_NO_FATAL_FAILURE(ExpectNear(got, i, reference.Embed(batch.Sequence(i), pooling)))
            << Name(pooling);
      }
    }
  }
}

// The promise of Model: a row's bits depend on its sequence only.
TEST(Encoder, ATextHasTheSameBitsInAnyCompanyAtAnyPlaceWithAnyThreads) {
  const TinyModel model =
      ModelOf({.layers = 2, .hidden = 60, .heads = 5, .ffn = 100, .positions = 200});
  const ReferenceEncoder reference(model.config, model.Tensors());
  std::vector<size_t> lengths;
  for (size_t i = 0; i < 30; ++i) lengths.push_back(1 + (i * 37) % 150);
  const TokenBatch batch = BatchOf(lengths);
  const auto single = Open(model, reference, {.threads = 1});
  std::vector<std::vector<float>> alone;
  for (size_t i = 0; i < batch.sequences(); ++i) {
    TokenBatch one;
    one.Append(batch.Sequence(i));
    alone.push_back(Embed(*single, one));
  }
  for (const size_t threads : {1, 2, 4}) {
    const auto encoder = Open(model, reference, {.threads = threads});
    // Company of 1 to all, starting anywhere, forwards and backwards.
    for (size_t size = 1; size <= batch.sequences(); size = size * 2 + 1) {
      for (size_t first = 0; first + size <= batch.sequences(); first += 1 + size / 2) {
        for (const bool backwards : {false, true}) {
          TokenBatch some;
          std::vector<size_t> members;
          for (size_t i = 0; i < size; ++i) {
            members.push_back(backwards ? first + size - 1 - i : first + i);
            some.Append(batch.Sequence(members.back()));
          }
          const std::vector<float> got = Embed(*encoder, some);
          for (size_t i = 0; i < size; ++i) {
            const std::vector<float> row(got.begin() + i * 60, got.begin() + (i + 1) * 60);
            ASSERT_EQ(row, alone[members[i]])
                << threads << " threads, " << size << " sequences from " << first;
          }
        }
      }
    }
  }
}

// Whole chunks, parts of chunks, and a sequence that all threads share.
TEST(Encoder, VectorsOfTokensAreThoseThatPoolingTakes) {
  const TinyModel model = ModelOf({.layers = 2,
                                   .hidden = 32,
                                   .heads = 4,
                                   .ffn = 64,
                                   .vocabulary = 0,
                                   .positions = 160,
                                   .token_types = 2});
  const ReferenceEncoder reference(model.config, model.Tensors());
  const TokenBatch batch = BatchOf({3, 70, 60, 1, 160, 9});
  for (const Pooling pooling : {Pooling::kCls, Pooling::kLastToken}) {
    const std::unique_ptr<Encoder> encoder =
        Open(model, reference, {.pooling = pooling, .threads = 2});
    const size_t columns = encoder->dimensions();
    std::vector<float> rows(batch.tokens.size() * columns, NAN);
    ASSERT_TRUE(encoder->EmbedEachToken(batch, {rows.data(), batch.tokens.size(), columns}).ok());
    const std::vector<float> pooled = Embed(*encoder, batch, {.normalize = false});
    for (size_t i = 0; i < batch.sequences(); ++i) {
      const size_t t = pooling == Pooling::kCls ? batch.offsets[i] : batch.offsets[i + 1] - 1;
      EXPECT_EQ(std::vector<float>(&rows[t * columns], &rows[t * columns] + columns),
                std::vector<float>(&pooled[i * columns], &pooled[i * columns] + columns))
          << "sequence " << i;
    }
  }
}

TEST(Encoder, CutsBeforeItNormalises) {
  const TinyModel model =
      ModelOf({.layers = 1, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
  const ReferenceEncoder reference(model.config, model.Tensors());
  const auto encoder = Open(model, reference, {.threads = 1});
  const TokenBatch batch = BatchOf({6, 9});
  const std::vector<float> raw = Embed(*encoder, batch, {.normalize = false});
  const std::vector<float> cut = Embed(*encoder, batch, {}, 5);
  for (size_t i = 0; i < 2; ++i) {
    double squares = 0;
    for (size_t c = 0; c < 5; ++c) squares += double{raw[i * 32 + c]} * raw[i * 32 + c];
    for (size_t c = 0; c < 5; ++c) {
      EXPECT_NEAR(cut[i * 5 + c], raw[i * 32 + c] / std::sqrt(squares), 1e-6);
    }
  }
}

TEST(Encoder, WritesNothingBesideItsColumns) {
  const TinyModel model =
      ModelOf({.layers = 1, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
  const ReferenceEncoder reference(model.config, model.Tensors());
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean, Pooling::kMax}) {
    const auto encoder = Open(model, reference, {.pooling = pooling, .threads = 2});
    std::vector<float> out(3 * 20, 7.0f);
    ASSERT_TRUE(encoder->Embed(BatchOf({3, 4, 5}), {}, {out.data(), 3, 11, 20}).ok());
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i] == 7.0f, i % 20 >= 11) << i;
  }
}

TEST(Encoder, AllocatesNothingAfterTheFirstBatchOfASize) {
  const TinyModel model =
      ModelOf({.layers = 2, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
  const ReferenceEncoder reference(model.config, model.Tensors());
  const auto encoder = Open(model, reference, {.threads = 2});
  for (const auto& lengths : {std::vector<size_t>{9}, std::vector<size_t>(50, 33)}) {
    const TokenBatch batch = BatchOf(lengths);
    std::vector<float> out(batch.sequences() * 32);
    const MatrixView<float> rows(out.data(), batch.sequences(), 32);
    ASSERT_TRUE(encoder->Embed(batch, {}, rows).ok());
    const size_t before = allocations;
    ASSERT_TRUE(encoder->Embed(batch, {}, rows).ok());
    EXPECT_EQ(allocations, before);
  }
}

TEST(Encoder, AnEmptyBatchIsNoWork) {
  const TinyModel model =
      ModelOf({.layers = 1, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
  const ReferenceEncoder reference(model.config, model.Tensors());
  const auto encoder = Open(model, reference, {.threads = 2});
  EXPECT_TRUE(encoder->Embed({}, {}, {}).ok());
}

TEST(Encoder, NamesWhatIsOutOfRangeAndGoesOn) {
  const TinyModel model =
      ModelOf({.layers = 1, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
  const ReferenceEncoder reference(model.config, model.Tensors());
  const auto encoder = Open(model, reference, {.max_sequence = 10, .threads = 1});
  EXPECT_EQ(encoder->max_sequence(), 10u);
  std::vector<float> out(2 * 32);
  const auto message = [&](const TokenBatch& batch) {
    Result<void> result = encoder->Embed(batch, {}, {out.data(), 2, 32});
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.error().message();
  };
  EXPECT_THAT(message(BatchOf({10, 11})), HasSubstr("sequence 1 has 11 tokens, expected 1 to 10"));
  EXPECT_THAT(message(BatchOf({0, 3})), HasSubstr("sequence 0 has 0 tokens, expected 1 to 10"));
  TokenBatch unknown = BatchOf({2, 2});
  unknown.tokens[3] = kVocabulary;
  EXPECT_THAT(message(unknown), HasSubstr("sequence 1 has token id 90, expected less than 90"));
  const TokenBatch good = BatchOf({4});
  ExpectNear(Embed(*encoder, good), 0, reference.Embed(good.Sequence(0), Pooling::kMean));
}

TEST(Encoder, RefusesMoreTokensThanPositions) {
  const TinyModel model =
      ModelOf({.layers = 1, .hidden = 32, .heads = 4, .ffn = 64, .positions = 64});
  const ReferenceEncoder reference(model.config, model.Tensors());
  const auto encoder =
      Encoder::Create(model.config, {.max_sequence = 65, .threads = 1}, reference.Source());
  ASSERT_FALSE(encoder.ok());
  EXPECT_THAT(encoder.error().message(), HasSubstr("max_sequence 65 exceeds"));
}

}  // namespace
}  // namespace sprat
