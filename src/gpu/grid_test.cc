// The single launch without a GPU: its plan, its packing, and its CPU twin against the graph path's
// twin and against the reference.
#include "gpu/grid_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "gpu/golden_for_test.h"
#include "gpu/grid_packing.h"
#include "gpu/grid_twin_for_test.h"
#include "gpu/half.h"
#include "gpu/model_file_for_test.h"
#include "gpu/random_model_for_test.h"
#include "gpu/twin_for_test.h"

namespace sprat::gpu::grid {
namespace {

TEST(GridPlan, LayoutsMatchValuesWorkedOutByHand) {
  // Token 3, columns 12 and 13: lane 3 * 4 + 2, word 1.
  EXPECT_EQ(SliceWord(3, 12), 14u * 4 + 1);
  EXPECT_EQ(SliceWord(7, 30), 31u * 4 + 3);
  EXPECT_EQ(SliceWord(7, 62), SliceWord(7, 30));
  // Row 9, column 13 of a fragment: lane 1 * 4 + 2, register 3, upper half.
  EXPECT_EQ(FragmentOffset(9, 13), 6u * 8 + 3 * 2 + 1);
  EXPECT_EQ(FragmentOffset(0, 0), 0u);
  EXPECT_EQ(FragmentOffset(8, 0), 2u);
  EXPECT_EQ(FragmentOffset(0, 8), 4u);
  EXPECT_EQ(kDownProduct.FragmentAt(2, 0, 3), 19u);
  // Warp 6: the third quarter of the columns of the key's rows.
  EXPECT_EQ(kQkvProduct.Tile(6, 1), 3u);
  EXPECT_EQ(kQkvProduct.Step(6, 5), 17u);
  EXPECT_EQ(kQkvProduct.FragmentAt(6, 1, 5), 83u);
  const float four[] = {1.0f, 2.0f, 4.0f, 8.0f};
  EXPECT_EQ(SumPartials(four), 15.0f);
  EXPECT_EQ(ExchangeAt(Exchange::kContext, 0, 0, 1, 2), (84u * 2 + 1) * 128);
  EXPECT_EQ(ExchangeAt(Exchange::kInner, 5, 47, 1, 2) + 128, ExchangeWords(2));
}

TEST(GridPlan, EveryPartOfEveryLayerHasOneBlock) {
  std::set<std::tuple<Role, uint32_t, uint32_t>> seen;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const Assignment a = AssignmentOf(block);
    for (uint32_t stage = 0; stage < a.Stages(); ++stage) {
      EXPECT_LT(a.Layer(stage), kMostLayers);
      EXPECT_TRUE(seen.emplace(a.role, a.part, a.Layer(stage)).second) << "block " << block;
    }
  }
  EXPECT_EQ(seen.size(), kMostLayers * (12u + 24u + 48u));
}

TEST(GridPlan, ExchangesDoNotOverlap) {
  std::set<size_t> words;
  for (const Exchange e : {Exchange::kX, Exchange::kContext, Exchange::kY, Exchange::kInner}) {
    const uint32_t layers = kMostLayers + (e == Exchange::kX);
    for (uint32_t layer = 0; layer < layers; ++layer) {
      for (uint32_t slice = 0; slice < SlicesOf(e); ++slice) {
        for (uint32_t tile = 0; tile < 2; ++tile) {
          words.insert(ExchangeAt(e, layer, slice, tile, 2));
        }
      }
    }
  }
  EXPECT_EQ(words.size(), size_t{2} * kExchangeSlices);
  EXPECT_EQ(*words.rbegin(), ExchangeWords(2) - kSliceWords);
}

TEST(GridPacking, FoldsTheLayerNormIntoRows) {
  const RandomModel model = MakeRandomModel(1, 30, 3);
  const ByteBuffer packed = std::move(PackLayers(model.config, model.Reader())).value();
  const auto tensor = [&](const std::string& name) { return model.tensors.find(name)->second; };
  const auto weight = tensor("encoder.layer.0.intermediate.dense.weight");
  const auto bias = tensor("encoder.layer.0.intermediate.dense.bias");
  const auto gamma = tensor("encoder.layer.0.attention.output.LayerNorm.weight");
  const auto beta = tensor("encoder.layer.0.attention.output.LayerNorm.bias");
  constexpr uint32_t kStrip{5}, kRow{19};  // row 179 of the up projection
  const std::byte* stage = packed.begin() + StageAt(kAttentionBlocks + kOutputBlocks + kStrip, 0);
  uint16_t half = 0;  // column 37: warp 1, step 0
  std::memcpy(&half,
              stage + kUpProduct.FragmentAt(1, 1, 0) * kFragmentBytes + 2 * FragmentOffset(3, 5),
              sizeof half);
  EXPECT_EQ(half, ToHalf(weight[179 * kHidden + 37] * gamma[37]));
  FoldedRow row;
  std::memcpy(&row, stage + StageConstantsAt(Role::kUp) + kRow * sizeof row, sizeof row);
  double sum = 0, constant = static_cast<double>(bias[179]);
  for (uint32_t k = 0; k < kHidden; ++k) {
    sum += static_cast<double>(FromHalf(ToHalf(weight[179 * kHidden + k] * gamma[k])));
    constant += static_cast<double>(weight[179 * kHidden + k] * beta[k]);
  }
  EXPECT_NEAR(static_cast<double>(row.sum), sum, 1e-6);
  EXPECT_NEAR(static_cast<double>(row.bias), constant, 1e-6);
}

TEST(GridPacking, RefusesWhatItIsNotBuiltFor) {
  RandomModel model = MakeRandomModel(7, 10, 1);
  Result<ByteBuffer> packed = PackLayers(model.config, model.Reader());
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().code(), ErrorCode::kUnsupported);
  model = MakeRandomModel(1, 10, 1);
  model.tensors["embeddings.LayerNorm.weight"][7] = 1e7f;
  packed = PackLayers(model.config, model.Reader());
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().code(), ErrorCode::kUnsupported);
}

// The vector of `ids` by the twin.
std::vector<float> Vector(const Ends& ends, const GridTwin& twin, uint32_t layers,
                          std::span<const uint32_t> ids) {
  const uint32_t tokens = static_cast<uint32_t>(ids.size());
  ExchangeMemory exchange(tokens <= kTile ? 1 : 2);
  ends.Start(ids, exchange);
  twin.Run(tokens, exchange);
  return ends.Finish(exchange, layers, tokens);
}

TEST(GridTwin, AgreesWithTheTwinOfTheGraphPath) {
  const RandomModel model = MakeRandomModel(2, 50, 1);
  const ByteBuffer layers = std::move(PackLayers(model.config, model.Reader())).value();
  const ByteBuffer packed = std::move(PackWeights(model.config, model.Reader())).value();
  const Ends ends = std::move(Ends::Read(model.config, model.Reader())).value();
  const GridTwin twin({layers.begin(), layers.size_bytes()}, 2, model.config.layer_norm_eps);
  Twin graph(model.config, Pooling::kMean, {packed.begin(), packed.size_bytes()});
  for (const size_t length : {1, 7, 16}) {
    const TokenBatch batch = RandomBatch({length}, 50, length);
    const std::vector<float> expected = graph.Embed(batch, Path::kRow, {kHidden, true});
    const std::vector<float> vector = Vector(ends, twin, 2, batch.Sequence(0));
    EXPECT_GE(Cosine(vector.data(), expected.data(), kHidden), 0.999999) << length;
    EXPECT_LE(LargestDifference(vector.data(), expected.data(), kHidden), 5e-4) << length;
  }
}

// The parity gate of the GPU paths, on the published weights.
TEST(GridTwin, AgreesWithTheGoldenVectors) {
  const char* directory = std::getenv("SPRAT_TEST_MODEL");
  if (directory == nullptr || !std::filesystem::exists(directory)) GTEST_SKIP() << "no model";
  const ModelFile model = std::move(ModelFile::Open(directory)).value();
  const ByteBuffer layers = std::move(PackLayers(model.config(), model.Reader())).value();
  const Ends ends = std::move(Ends::Read(model.config(), model.Reader())).value();
  const GridTwin twin({layers.begin(), layers.size_bytes()}, 6, model.config().layer_norm_eps);
  const std::vector<GoldenVector> all =
      std::move(ReadGolden(std::string(SPRAT_TESTDATA) + "/golden/minilm.jsonl")).value();
  size_t seen = 0;
  for (const GoldenVector& one : all) {
    if (one.ids.size() > kTile * kMostTiles || ++seen % 40 != 0) continue;  // a sample: it is slow
    const std::vector<float> vector = Vector(ends, twin, 6, one.ids);
    EXPECT_GE(Cosine(vector.data(), one.vector.data(), kHidden), 0.99999) << seen;
    EXPECT_LE(LargestDifference(vector.data(), one.vector.data(), kHidden), 2e-3) << seen;
  }
  EXPECT_GE(seen, 40u);
}

}  // namespace
}  // namespace sprat::gpu::grid
