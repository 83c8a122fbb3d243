// What the tests of the n-gram embedding as a whole share.
#ifndef SPRAT_NGRAM_EMBEDDING_FOR_TEST_H_
#define SPRAT_NGRAM_EMBEDDING_FOR_TEST_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "sprat/ngram.h"

namespace sprat {

using Tokens = std::vector<uint32_t>;
using Values = std::vector<float>;

inline NgramEmbedding Opened(const std::filesystem::path& directory, NgramOptions options = {}) {
  if (options.threads == 0) options.threads = 2;
  Result<NgramEmbedding> model = NgramEmbedding::Open(directory, options);
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message();
    std::abort();
  }
  return std::move(model).value();
}

inline NgramOptions Form(NgramTables form, size_t cache_bytes = 1 << 20) {
  NgramOptions options;
  options.tables = form;
  options.cache_bytes = cache_bytes;
  return options;
}

inline Values Embed(const NgramEmbedding& model, const Tokens& context, const Tokens& tokens) {
  Values out(tokens.size() * model.info().hidden);
  Result<void> embedded = model.Embed(context, tokens, out);
  EXPECT_TRUE(embedded.ok()) << embedded.error().message();
  return out;
}

inline Tokens RandomTokens(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<uint32_t> token(0, vocabulary - 1);
  Tokens tokens(count);
  for (uint32_t& x : tokens) x = token(random);
  return tokens;
}

// |found - exact| / |exact| of every row.
inline std::vector<double> RowErrors(const Values& found, const std::vector<double>& exact,
                                     size_t hidden) {
  EXPECT_EQ(found.size(), exact.size());
  std::vector<double> errors;
  for (size_t first = 0; first < exact.size(); first += hidden) {
    double difference = 0, norm = 0;
    for (size_t h = first; h < first + hidden; ++h) {
      difference += (found[h] - exact[h]) * (found[h] - exact[h]);
      norm += exact[h] * exact[h];
    }
    errors.push_back(std::sqrt(difference / norm));
  }
  return errors;
}

inline double WorstRowError(const Values& found, const std::vector<double>& exact, size_t hidden) {
  double worst = 0;
  for (const double error : RowErrors(found, exact, hidden)) {
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  return worst;
}

inline void ExpectRefused(const std::filesystem::path& directory, const NgramOptions& options,
                          ErrorCode code, std::string_view message) {
  Result<NgramEmbedding> model = NgramEmbedding::Open(directory, options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code(), code) << model.error().message();
  EXPECT_THAT(model.error().message(), testing::HasSubstr(message));
}

}  // namespace sprat

#endif  // SPRAT_NGRAM_EMBEDDING_FOR_TEST_H_
