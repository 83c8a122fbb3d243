#include "ngram/ngram_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ngram/dispatch.h"
#include "ngram/flash_lite_for_test.h"

namespace sprat {
namespace {

// Vocabulary 1000, tables of 3001, 3003, 3005, 3007 rows.
NgramConfig Small() {
  NgramConfig config;
  config.vocabulary = 1000;
  config.hidden = 8;
  config.max_order = 3;
  config.splits = 2;
  config.base_rows = 3000;
  config.eos = 2;
  return config;
}

using Tokens = std::vector<uint32_t>;

Tokens Ids(const NgramConfig& config, const Tokens& context, const Tokens& tokens) {
  Tokens ids(tokens.size() * config.tables());
  NgramHash(config, ScalarNgramKernels()).Ids(context, tokens, ids);
  return ids;
}

Tokens Table(const NgramConfig& config, const Tokens& tokens, uint32_t table) {
  const Tokens ids = Ids(config, {}, tokens);
  Tokens column;
  for (size_t t = 0; t < tokens.size(); ++t) column.push_back(ids[t * config.tables() + table]);
  return column;
}

TEST(NgramHash, VectorsOfFlashLite) {
  const Tokens plain{11, 523, 9001, 44, 130000, 7, 88, 4};
  EXPECT_EQ(Table(FlashLite(), plain, 0),
            (Tokens{11, 1442315, 7217955, 4063161, 5897168, 6814085, 917592, 1310723}));
  EXPECT_EQ(Table(FlashLite(), plain, 11),
            (Tokens{11, 1442315, 1811932, 8640817, 4896432, 7713606, 4246721, 611117}));
}

TEST(NgramHash, TheLookBackStopsAtTheEndOfASequence) {
  const Tokens with_eos{11, 523, 2, 44, 130000, 7, 88, 4};
  EXPECT_EQ(Table(FlashLite(), with_eos, 0),
            (Tokens{11, 1442315, 7208956, 44, 5897168, 6814085, 917592, 1310723}));
  EXPECT_EQ(Table(FlashLite(), with_eos, 11),
            (Tokens{11, 1442315, 1802933, 44, 5897168, 5601147, 4246721, 611117}));
}

// [8, 6, 17, 40, 3, 25] in pieces: the tokens before a piece travel with it.
TEST(NgramHash, PiecesGiveTheIdsOfTheWhole) {
  const NgramConfig config = Small();
  const Tokens tokens{8, 6, 17, 40, 3, 25};
  const Tokens expected{8,    8,    8,    8,  2004, 2000, 1996, 1992, 15, 11, 697, 1383,
                        2035, 2025, 1030, 33, 990,  964,  1653, 2341, 24, 22, 465, 904};
  EXPECT_EQ(Ids(config, {}, tokens), expected);
  for (const std::vector<size_t>& cuts :
       {std::vector<size_t>{4, 2}, {1, 1, 1, 1, 1, 1}, {5, 1}, {2, 3, 1}}) {
    Tokens together;
    size_t done = 0;
    for (const size_t size : cuts) {
      const auto first = tokens.begin() + static_cast<ptrdiff_t>(done);
      // Only the last N - 1 = 2 tokens of the context count.
      const size_t kept = std::min<size_t>(done, 2);
      const Tokens context(first - static_cast<ptrdiff_t>(kept), first);
      const Tokens ids = Ids(config, context, {first, first + static_cast<ptrdiff_t>(size)});
      together.insert(together.end(), ids.begin(), ids.end());
      done += size;
    }
    EXPECT_EQ(together, expected);
  }
}

TEST(NgramHash, AnIgnoredTokenStopsTheLookBackAndIsHashedAsItIs) {
  NgramConfig config = Small();
  config.ignored = {{6, 7}};
  // 8: alone. 6: 6 + 8 * (1000 mod M_i), as if it were not ignored. 17: sees nothing.
  EXPECT_EQ(Ids(config, {}, {8, 6, 17}),
            (Tokens{8, 8, 8, 8, 2004, 2000, 1996, 1992, 17, 17, 17, 17}));
  EXPECT_EQ(Ids(config, {8, 6}, {17}), (Tokens{17, 17, 17, 17}));
}

TEST(NgramHash, EveryTableOfKernelsAgreesWithTheDefinition) {
  std::mt19937 random(7);
  std::vector<NgramConfig> configs{FlashLite(), Small()};
  NgramConfig wide = FlashLite();  // 5 splits of 6 orders: 25 tables, not a multiple of a vector
  wide.splits = 5;
  wide.max_order = 6;
  wide.hidden = 25;
  wide.ignored = {{10, 4000}, {100000, 110000}};
  configs.push_back(wide);
  NgramConfig large = FlashLite();  // sums of 62 bits: past what double precision divides
  large.vocabulary = 1u << 30;
  large.base_rows = 4294967000 - 22;
  configs.push_back(large);
  NgramConfig tiny = Small();  // every table of 1 + 2 i rows
  tiny.base_rows = 0;
  configs.push_back(tiny);
  for (const NgramConfig& config : configs) {
    const NgramHash hash(config, ScalarNgramKernels());
    for (const size_t count : {0, 1, 2, 7, 300}) {
      std::uniform_int_distribution<uint32_t> token(0, config.vocabulary - 1);
      std::uniform_int_distribution<int> chance(0, 9);
      Tokens context(3), tokens(count);
      for (uint32_t& x : context) x = token(random);
      for (uint32_t& x : tokens) x = chance(random) == 0 ? config.eos : token(random);
      // The largest sum there can be.
      if (count == 7) std::fill(tokens.begin(), tokens.end(), config.vocabulary - 1);
      Tokens expected(count * config.tables()), found(count * config.tables());
      hash.IdsByDefinition(context, tokens, expected);
      for (const NgramKernels* kernels : RunnableNgramKernels()) {
        NgramHash(config, *kernels).Ids(context, tokens, found);
        EXPECT_EQ(found, expected)
            << kernels->name << ", " << config.tables() << " tables, " << count << " tokens";
      }
    }
  }
}

}  // namespace
}  // namespace sprat
