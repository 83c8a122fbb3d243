// The whole path of the n-gram embedding without a GPU: hash, gather, packed projections, parts of
// the sum in their order, word row and scale.
#include "gpu/ngram_twin_for_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "model/safetensors.h"
#include "ngram/dispatch.h"
#include "ngram/ngram_hash.h"
#include "ngram/ngram_tensors.h"
#include "ngram/number_formats.h"
#include "ngram/tiny_ngram_for_test.h"

namespace sprat::gpu {
namespace {

std::vector<uint16_t> AsBf16(const std::vector<float>& values) {
  std::vector<uint16_t> rounded;
  for (const float x : values) rounded.push_back(FloatToBf16(x));
  return rounded;
}

// A small model on disk, opened, and its twin.
struct Twinned {
  TinyNgram model;
  NgramConfig config;
  std::unique_ptr<TensorFile> file;
  NgramTensors tensors;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<RowTables> tables;
  std::unique_ptr<NgramTwin> twin;
};

std::vector<uint16_t> JoinProjections(const TinyNgram& model) {
  std::vector<uint16_t> joined(size_t{model.hidden} * model.hidden);
  for (uint32_t i = 0; i < model.count(); ++i) {
    for (size_t n = 0; n < model.hidden; ++n) {
      for (size_t k = 0; k < model.width(); ++k) {
        joined[n * model.hidden + i * model.width() + k] =
            FloatToBf16(model.projections[i][n * model.width() + k]);
      }
    }
  }
  return joined;
}

Twinned MakeTwin(TinyNgram tiny, NgramTables form = NgramTables::kMapped) {
  Twinned made;
  made.model = std::move(tiny);
  const std::filesystem::path directory = made.model.Write();
  const std::string text = ReadFile(directory / "config.json", 1 << 20).value();
  made.config = *ParseNgramConfig("config.json", text, {}).value();
  made.file = std::make_unique<TensorFile>(TensorFile::OpenDirectory(directory).value());
  made.tensors = FindNgramTensors(*made.file, made.config, true).value();
  made.threads = ThreadPool::Create(1).value();
  NgramOptions options;
  options.tables = form;
  made.tables = std::make_unique<RowTables>(
      RowTables::Load(made.config, made.tensors, options, *made.threads).value());
  made.twin = std::make_unique<NgramTwin>(made.config, *made.tables, JoinProjections(made.model),
                                          AsBf16(made.model.word));
  return made;
}

TinyNgram Tiny(uint32_t hidden, uint32_t neighbours, uint32_t splits) {
  TinyNgram model;
  model.vocabulary = 97;
  model.hidden = hidden;
  model.ratio = 20.5;
  model.neighbours = neighbours;
  model.splits = splits;
  model.seed = hidden + neighbours;
  return model;
}

// A whole sequence as a request: N - 1 ends of sequence, then the tokens.
struct Sequence {
  std::vector<uint32_t> stream;
  NgramRequest request;
};
Sequence MakeSequence(const NgramConfig& config, const std::vector<uint32_t>& tokens) {
  Sequence sequence;
  sequence.stream.assign(config.max_order - 1, config.eos);
  sequence.stream.insert(sequence.stream.end(), tokens.begin(), tokens.end());
  sequence.request.stream = sequence.stream.data();
  sequence.request.tokens = static_cast<uint32_t>(tokens.size());
  return sequence;
}

std::vector<uint32_t> RandomTokens(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& x : tokens) x = static_cast<uint32_t>(random() % vocabulary);
  return tokens;
}

// The largest |found - exact| / |exact| of a row; a NaN stays.
double WorstRow(const std::vector<uint16_t>& found, const std::vector<double>& exact,
                size_t hidden) {
  EXPECT_EQ(found.size(), exact.size());
  double worst = 0;
  for (size_t row = 0; row < found.size(); row += hidden) {
    double error = 0, norm = 0;
    for (size_t i = row; i < row + hidden; ++i) {
      error += std::pow(double{Bf16ToFloat(found[i])} - exact[i], 2);
      norm += std::pow(exact[i], 2);
    }
    const double relative = std::sqrt(error / norm);
    worst = relative <= worst ? worst : relative;
  }
  return worst;
}

struct Shape {
  uint32_t hidden, order, splits;
};
constexpr Shape kShapes[] = {{256, 3, 2}, {768, 4, 4}, {64, 2, 1}, {384, 3, 3}, {320, 6, 1}};

TEST(NgramTwin, GivesTheVectorsOfTheReference) {
  for (const Shape& shape : kShapes) {
    for (const auto scale : {ReferenceScale::kAverage, ReferenceScale::kFixed}) {
      TinyNgram model = Tiny(shape.hidden, shape.order, shape.splits);
      if (scale == ReferenceScale::kFixed) {
        model.config_json["ngram_fix_normalize_factor"] = "true";
      }
      const Twinned made = MakeTwin(model);
      const std::vector<uint32_t> tokens = RandomTokens(9, 97, shape.hidden);
      const Sequence sequence = MakeSequence(made.config, tokens);
      const std::vector<double> exact =
          ReferenceVectors(made.model, tokens, {made.model.eos}, scale);
      const std::vector<uint16_t> first = made.twin->Embed(sequence.request, kTwinTiles[0]);
      // bf16 results: at most 2^-9 an element, of a row less.
      EXPECT_LT(WorstRow(first, exact, shape.hidden), 0.0025) << "H " << shape.hidden;
      for (const TwinTile& tile : kTwinTiles) {
        EXPECT_EQ(made.twin->Embed(sequence.request, tile), first)
            << "H " << shape.hidden << ", tiles of " << tile.columns;
      }
    }
  }
}

TEST(NgramTwin, HashesLikeTheDefinition) {
  for (const bool wide : {false, true}) {
    TinyNgram model = Tiny(320, 6, 1);
    model.newer_names = true;
    model.config_json["oe_ignored_token_ids"] = "[5, 6, 7, 30]";
    const Twinned made = MakeTwin(model);
    NgramModelView view = made.twin->view();
    view.plan.wide_sums = wide;
    const std::vector<uint32_t> tokens = RandomTokens(300, 40, 3);  // stops are frequent
    const Sequence sequence = MakeSequence(made.config, tokens);
    std::vector<uint32_t> expected(tokens.size() * 5), found;
    NgramHash(made.config, ScalarNgramKernels()).IdsByDefinition({}, tokens, expected);
    for (uint32_t t = 0; t < 300; ++t) {
      const NgramWindow window = LoadWindow(view, sequence.request, t);
      for (uint32_t i = 0; i < 5; ++i)
        found.push_back(TableRow(view.plan, view.entries[i], window));
    }
    EXPECT_EQ(found, expected) << (wide ? "integer" : "double") << " division";
    EXPECT_EQ(made.twin->Ids(sequence.request), expected);
  }
}

TEST(NgramTwin, GivesTheSameBitsInAnyChunk) {
  for (const NgramTables form : {NgramTables::kMapped, NgramTables::kFp8}) {
    const Twinned made = MakeTwin(Tiny(256, 3, 2), form);
    const std::vector<uint32_t> tokens = RandomTokens(20, 97, 7);
    const Sequence sequence = MakeSequence(made.config, tokens);
    const std::vector<uint16_t> whole = made.twin->Embed(sequence.request, kTwinTiles[3]);
    // Tokens 15 .. 19, then 3 .. 4, as two pieces of a batch.
    const std::vector<uint32_t> at = {17, 18, 19, 20, 21, 5, 6};
    NgramRequest pieces = sequence.request;
    pieces.at = at.data();
    pieces.tokens = 7;
    const std::vector<uint16_t> found = made.twin->Embed(pieces, kTwinTiles[0]);
    for (size_t t = 0; t < at.size(); ++t) {
      EXPECT_TRUE(std::equal(found.begin() + t * 256, found.begin() + (t + 1) * 256,
                             whole.begin() + (at[t] - 2) * 256))
          << "token " << t;
    }
  }
}

TEST(NgramTwin, StaysWithinTheErrorOfFp8) {
  const Twinned made = MakeTwin(Tiny(768, 4, 4), NgramTables::kFp8);
  const std::vector<uint32_t> tokens = RandomTokens(20, 97, 9);
  const Sequence sequence = MakeSequence(made.config, tokens);
  const std::vector<double> exact =
      ReferenceVectors(made.model, tokens, {made.model.eos}, ReferenceScale::kAverage);
  const double worst = WorstRow(made.twin->Embed(sequence.request, kTwinTiles[2]), exact, 768);
  EXPECT_LT(worst, 0.04);
  EXPECT_GT(worst, 0.005);  // the tables are quantised
}

TEST(NgramTwin, TakesHiddenRowsInPlaceOfWords) {
  const Twinned made = MakeTwin(Tiny(256, 3, 2));
  const std::vector<uint32_t> tokens = {5, 96, 0};
  Sequence sequence = MakeSequence(made.config, tokens);
  const std::vector<uint16_t> expected = made.twin->Embed(sequence.request, kTwinTiles[1]);
  std::vector<uint16_t> hidden;
  const std::vector<uint16_t> word = AsBf16(made.model.word);
  for (const uint32_t token : tokens) {
    hidden.insert(hidden.end(), word.begin() + token * 256, word.begin() + (token + 1) * 256);
  }
  sequence.request.hidden = hidden.data();
  EXPECT_EQ(made.twin->Embed(sequence.request, kTwinTiles[1]), expected);
  hidden[0] = FloatToBf16(100.0f);
  EXPECT_NE(made.twin->Embed(sequence.request, kTwinTiles[1]), expected);
}

}  // namespace
}  // namespace sprat::gpu
