#include "gpu/ngram_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ngram/number_formats.h"

namespace sprat::gpu {
namespace {

using testing::HasSubstr;

NgramConfig FlashLite() {
  NgramConfig config;
  config.vocabulary = 131072;
  config.hidden = 3072;
  config.max_order = 4;
  config.splits = 4;
  config.base_rows = 78 * 131072;
  config.eos = 2;
  return config;
}

NgramPlan Plan(const NgramConfig& config) {
  Result<NgramPlan> plan = MakeNgramPlan(config);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? plan.value() : NgramPlan{};
}

TEST(NgramPlan, CutsTheSumAtTableBorders) {
  NgramPlan plan = Plan(FlashLite());
  EXPECT_EQ(plan.width, 256u);
  const auto parts = [&] {
    return std::vector<uint32_t>{plan.PartBegin(0), plan.PartBegin(1), plan.PartBegin(2),
                                 plan.PartBegin(3), plan.PartBegin(4)};
  };
  EXPECT_THAT(parts(), testing::ElementsAre(0, 3, 6, 9, 12));
  EXPECT_EQ(plan.MostTablesOfBlock(), 6u);
  plan.tables = 6;
  EXPECT_THAT(parts(), testing::ElementsAre(0, 1, 3, 4, 6));
  plan.tables = 1;  // three parts are empty
  EXPECT_THAT(parts(), testing::ElementsAre(0, 0, 0, 0, 1));
  EXPECT_EQ(plan.MostTablesOfBlock(), 1u);
}

TEST(NgramPlan, KnowsTheScales) {
  NgramConfig config = FlashLite();
  EXPECT_FLOAT_EQ(Plan(config).word_scale, 1 / 13.0f);
  EXPECT_FLOAT_EQ(Plan(config).sum_scale, 1 / 13.0f);
  config.scale = NgramScale::kFixedFactor;
  EXPECT_FLOAT_EQ(Plan(config).word_scale, 0.2773501f);
  EXPECT_FLOAT_EQ(Plan(config).sum_scale, 0.2773501f);
  config.scale = NgramScale::kFullWord;
  EXPECT_EQ(Plan(config).word_scale, 1.0f);
  EXPECT_FLOAT_EQ(Plan(config).sum_scale, 1 / 13.0f);
}

TEST(NgramPlan, FitsAQueryIntoSharedMemory) {
  NgramPlan plan = Plan(FlashLite());
  EXPECT_EQ(plan.QueryRowBytes(), 6 * 512u + 16u);
  EXPECT_EQ(plan.QuerySharedBytes(64), 64 * (3088u + 192u + 96u));
  EXPECT_EQ(plan.MostQueryTokens(), 64u);
  plan.tables = 1;
  plan.width = 64;  // the sums that take the place of the rows are longer than these
  EXPECT_EQ(plan.QuerySharedBytes(16), 16 * (192u + 192u + 16u));
  plan.tables = 12;
  plan.width = 512;  // H = 6144
  EXPECT_EQ(plan.MostQueryTokens(), 32u);
  plan.width = 1024;
  EXPECT_EQ(plan.MostQueryTokens(), 16u);
  plan.width = 2048;
  EXPECT_EQ(plan.MostQueryTokens(), 0u);
}

TEST(NgramPlan, CountsWhatABatchGathers) {
  EXPECT_EQ(GatherUnitsOf(1), 1u);
  EXPECT_EQ(GatherUnitsOf(4), 1u);
  EXPECT_EQ(GatherUnitsOf(5), 2u);
  EXPECT_EQ(GatherUnitsOf(8192), 2048u);
  // Flash-Lite has 16 tiles of columns; a group of 256 tokens is 64 units.
  EXPECT_EQ(UnitsFor(0, 16), 64u);
  EXPECT_EQ(UnitsFor(15, 16), 64u);
  EXPECT_EQ(UnitsFor(16, 16), 128u);
  EXPECT_EQ(UnitsFor(65, 16), 320u);  // the first tiles of 66 clusters
  EXPECT_EQ(BatchCapacity(257), 512u);
  EXPECT_EQ(BatchCounters(257), 3u);
  EXPECT_EQ(BatchWorkspaceBytes(257, 3072), 512 * 6144u + 16u);
  EXPECT_EQ(BatchWorkspaceBytes(1024, 64), 1024 * 128u + 32u);  // five counters
}

TEST(NgramPlan, RefusesWhatTheKernelsCannotDo) {
  const auto refused = [](auto change) {
    NgramConfig config = FlashLite();
    change(config);
    Result<NgramPlan> plan = MakeNgramPlan(config);
    EXPECT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code(), ErrorCode::kUnsupported);
    return plan.error().message();
  };
  EXPECT_THAT(refused([](NgramConfig& c) { c.hidden = 12 * 96; }),
              HasSubstr("rows of 96 values; on a GPU expected a multiple of 64"));
  EXPECT_THAT(refused([](NgramConfig& c) { c.splits = 6; }),
              HasSubstr("18 n-gram tables; on a GPU at most 16"));
  EXPECT_THAT(refused([](NgramConfig& c) { c.max_order = 9, c.splits = 1; }),
              HasSubstr("n-grams of 9 tokens; on a GPU at most 8"));
}

TEST(NgramPlan, HashesWithTheModuliAndPowersOfTheConfig) {
  const std::vector<NgramTableEntry> entries = MakeTableEntries(FlashLite());
  ASSERT_EQ(entries.size(), 12u);
  EXPECT_EQ(entries[0].modulus, 10223617u);
  EXPECT_EQ(entries[11].modulus, 10223639u);
  EXPECT_EQ(entries[0].power[0], 131072u);  // a table of order 2 reads one token back
  EXPECT_EQ(entries[0].power[1], 0u);
  EXPECT_EQ(entries[11].power[1], (uint64_t{131072} * 131072) % 10223639);
  EXPECT_NE(entries[11].power[2], 0u);
  EXPECT_EQ(entries[11].power[3], 0u);
  EXPECT_FALSE(Plan(FlashLite()).wide_sums);
  NgramConfig large = FlashLite();
  large.base_rows = uint64_t{4000} << 20;  // sums of about 2^50.6
  EXPECT_FALSE(Plan(large).wide_sums);
  large.vocabulary = 1 << 20;  // and of 2^53.6
  EXPECT_TRUE(Plan(large).wide_sums);
}

TEST(NgramPlan, MergesTheTokensThatStop) {
  NgramConfig config = FlashLite();
  EXPECT_THAT(MakeStops(config), testing::ElementsAre(TokenRange{2, 3}));
  config.ignored = {{36, 55}, {0, 2}, {40, 60}};
  EXPECT_THAT(MakeStops(config), testing::ElementsAre(TokenRange{0, 3}, TokenRange{36, 60}));
}

TEST(FragmentOffset, MatchesValuesWorkedOutByHand) {
  EXPECT_EQ(FragmentOffset(0, 0, 64), 0u);
  EXPECT_EQ(FragmentOffset(0, 1, 64), 1u);        // the pair of lane 0
  EXPECT_EQ(FragmentOffset(0, 2, 64), 8u);        // lane 1
  EXPECT_EQ(FragmentOffset(0, 8, 64), 2u);        // lane 0, upper half of the step
  EXPECT_EQ(FragmentOffset(0, 16, 64), 4u);       // lane 0, second step
  EXPECT_EQ(FragmentOffset(1, 0, 64), 4 * 8u);    // lane 4
  EXPECT_EQ(FragmentOffset(0, 32, 64), 32 * 8u);  // the next load
  EXPECT_EQ(FragmentOffset(8, 0, 64), 2 * 256u);  // the next eight columns
  EXPECT_EQ(FragmentOffset(7, 31, 64), 31 * 8 + 7u);
}

// What the query kernel does with fragments, lane by lane, and what the batch kernel does with
// panels, gives each column's products in the right places.
TEST(NgramPacking, BothFormsMultiplyLikeTheMatrix) {
  NgramConfig config = FlashLite();
  config.hidden = 4 * 64;
  config.splits = 2;
  config.max_order = 3;
  const NgramPlan plan = Plan(config);
  const size_t h = plan.hidden;
  EXPECT_EQ(plan.FragmentColumns(), 288u);
  EXPECT_EQ(plan.PanelColumns(), 384u);
  std::mt19937 random(5);
  std::vector<uint16_t> weights(h * h);
  for (uint16_t& w : weights) w = FloatToBf16(static_cast<float>(random() % 17) - 8);
  std::vector<float> row(h);
  for (float& x : row) x = static_cast<float>(random() % 9) - 4;
  const std::vector<uint16_t> fragments = PackFragments(plan, weights);
  const std::vector<uint16_t> panels = PackPanels(plan, weights);
  ASSERT_EQ(fragments.size(), 288 * h);
  ASSERT_EQ(panels.size(), 384 * h + 208 * 64);
  for (size_t n = 0; n < plan.PanelColumns(); ++n) {
    float expected = 0, from_fragments = 0, from_panels = 0;
    for (size_t k = 0; k < h && n < h; ++k) expected += Bf16ToFloat(weights[n * h + k]) * row[k];
    for (size_t load = 0; load < h / 32 && n < plan.FragmentColumns(); ++load) {
      for (size_t q = 0; q < 4; ++q) {
        const uint16_t* lane = &fragments[((n / 8 * (h / 32) + load) * 32 + n % 8 * 4 + q) * 8];
        for (size_t e = 0; e < 8; ++e) {
          const size_t k = load * 32 + e / 4 * 16 + e % 4 / 2 * 8 + 2 * q + e % 2;
          from_fragments += Bf16ToFloat(lane[e]) * row[k];
        }
      }
    }
    for (size_t k = 0; k < h; ++k) {  // 128-byte rows, 16-byte chunks swizzled by the row
      const size_t chunk = (k % 64 / 8) ^ (n % 8);
      from_panels += Bf16ToFloat(panels[(k / 64 * 384 + n) * 64 + chunk * 8 + k % 8]) * row[k];
    }
    EXPECT_EQ(from_fragments, n < h ? expected : 0.0f) << n;
    EXPECT_EQ(from_panels, expected) << n;
  }
}

}  // namespace
}  // namespace sprat::gpu
