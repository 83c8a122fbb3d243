#include "ngram/ngram_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sprat {
namespace {

using testing::HasSubstr;

constexpr char kFlashLite[] =
    R"({"architectures": ["LongcatFlashNgramForCausalLM"], "vocab_size": 131072,
        "hidden_size": 3072, "ngram_vocab_size_ratio": 78, "emb_neighbor_num": 4,
        "emb_split_num": 4, "eos_token_id": 2})";

// kFlashLite with the text `from` replaced by `to`.
std::string With(std::string_view from, std::string_view to) {
  std::string json = kFlashLite;
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}

Result<std::optional<NgramConfig>> Parse(std::string_view json,
                                         const NgramConfigOverrides& overrides = {}) {
  return ParseNgramConfig("config.json", json, overrides);
}

NgramConfig Parsed(std::string_view json, const NgramConfigOverrides& overrides = {}) {
  Result<std::optional<NgramConfig>> config = Parse(json, overrides);
  EXPECT_TRUE(config.ok()) << config.error().message();
  EXPECT_TRUE(config.value().has_value());
  return *config.value();
}

void ExpectRefused(std::string_view json, ErrorCode code, std::string_view message) {
  Result<std::optional<NgramConfig>> config = Parse(json);
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_EQ(config.error().code(), code) << config.error().message();
  EXPECT_THAT(config.error().message(), HasSubstr(message));
}

TEST(NgramConfig, ReadsFlashLite) {
  const NgramConfig config = Parsed(kFlashLite);
  EXPECT_EQ(config.tables(), 12u);
  EXPECT_EQ(config.width(), 256u);
  EXPECT_EQ(config.rows(0), 10223617u);   // 78 * 131072 + 1
  EXPECT_EQ(config.rows(11), 10223639u);  // 22 more
  EXPECT_EQ(config.stored_rows(11), 10223639u);
  EXPECT_EQ(config.order(0), 2u);
  EXPECT_EQ(config.order(3), 2u);
  EXPECT_EQ(config.order(11), 4u);
  EXPECT_EQ(config.eos, 2u);
  EXPECT_EQ(config.scale, NgramScale::kAverage);
  // 131071 + 3 * 131071 * 10223638: 41.9 bits.
  EXPECT_EQ(config.max_sum(), 4020067499965u);
}

TEST(NgramConfig, ReadsTheNewerKeys) {
  const NgramConfig config =
      Parsed(R"({"vocab_size": 163840, "hidden_size": 8192, "oe_vocab_size_ratio": 100.567,
                 "oe_neighbor_num": 5, "oe_split_num": 4, "eos_token_id": 2,
                 "ngram_vocab_size_ratio": null, "emb_neighbor_num": null})");
  EXPECT_EQ(config.tables(), 16u);
  EXPECT_EQ(config.rows(0), 16476898u);  // int(163840 * 100.567) = 16476897
}

TEST(NgramConfig, FractionalRatioIsTruncated) {
  // 10 * 2.57 = 25.7
  EXPECT_EQ(
      Parsed(With("\"ngram_vocab_size_ratio\": 78", "\"ngram_vocab_size_ratio\": 0.5")).base_rows,
      65536u);
  // 10 * 2.57 = 25.7
  EXPECT_EQ(Parsed(R"({"vocab_size": 10, "hidden_size": 2, "ngram_vocab_size_ratio": 2.57,
                       "emb_neighbor_num": 2, "emb_split_num": 1, "eos_token_id": 2})")
                .base_rows,
            25u);
}

TEST(NgramConfig, NoKeysIsNoNgramModel) {
  Result<std::optional<NgramConfig>> config = Parse(R"({"vocab_size": 10, "hidden_size": 2})");
  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config.value().has_value());
}

TEST(NgramConfig, SomeKeysAreAnError) {
  ExpectRefused(
      With("\"emb_split_num\": 4,", ""), ErrorCode::kCorrupt,
      "config.json: emb_split_num is missing, expected all of ngram_vocab_size_ratio, "
      "emb_neighbor_num, emb_split_num or none of them, and ngram_vocab_size_ratio is 78");
  ExpectRefused(With("\"ngram_vocab_size_ratio\": 78,", ""), ErrorCode::kCorrupt,
                "ngram_vocab_size_ratio is missing");
  ExpectRefused(With("\"eos_token_id\": 2", "\"eos_token_id\": 2, \"oe_split_num\": 4"),
                ErrorCode::kCorrupt, "oe_vocab_size_ratio is missing");
  ExpectRefused(With("\"vocab_size\": 131072,", ""), ErrorCode::kCorrupt, "vocab_size is missing");
}

TEST(NgramConfig, FamiliesMustAgree) {
  const std::string newer =
      "\"oe_vocab_size_ratio\": 78, \"oe_neighbor_num\": 4, \"oe_split_num\": ";
  EXPECT_EQ(Parsed(With("\"eos_token_id\"", newer + "4, \"eos_token_id\"")).splits, 4u);
  ExpectRefused(With("\"eos_token_id\"", newer + "3, \"eos_token_id\""), ErrorCode::kCorrupt,
                "oe_split_num: expected the value of emb_split_num, 4, got 3");
}

TEST(NgramConfig, NumbersOutOfRangeAreNamed) {
  ExpectRefused(
      With("\"hidden_size\": 3072", "\"hidden_size\": 3070"), ErrorCode::kCorrupt,
      "hidden_size: expected a multiple of the 12 tables, 4 splits for each of 3 orders, got 3070");
  ExpectRefused(With("\"hidden_size\": 3072", "\"hidden_size\": \"3072\""), ErrorCode::kCorrupt,
                "hidden_size: expected a whole number from 1 to 1048576, got \"3072\"");
  ExpectRefused(With("\"emb_neighbor_num\": 4", "\"emb_neighbor_num\": 1"), ErrorCode::kCorrupt,
                "emb_neighbor_num: expected a whole number from 2 to 32, got 1");
  ExpectRefused(With("\"emb_split_num\": 4", "\"emb_split_num\": 0"), ErrorCode::kCorrupt,
                "emb_split_num: expected a whole number from 1 to 1365, got 0");
  ExpectRefused(With("\"emb_split_num\": 4", "\"emb_split_num\": -4"), ErrorCode::kCorrupt,
                "got -4");
  ExpectRefused(With("\"vocab_size\": 131072", "\"vocab_size\": 4294967296"), ErrorCode::kCorrupt,
                "vocab_size: expected a whole number from 1 to 4294967295, got 4294967296");
  for (const char* ratio :
       {"0", "-1", "0.000001", "1e300", "32768", "32767.9999", "\"78\"", "18446744073709551615"}) {
    ExpectRefused(
        With("\"ngram_vocab_size_ratio\": 78", std::string("\"ngram_vocab_size_ratio\": ") + ratio),
        ErrorCode::kCorrupt, "ngram_vocab_size_ratio");
  }
  ExpectRefused(With("\"eos_token_id\": 2", "\"eos_token_id\": [2, 3]"), ErrorCode::kCorrupt,
                "eos_token_id: expected a whole number from 0 to 4294967295, got [2,3]");
  ExpectRefused("[]", ErrorCode::kCorrupt, "expected an object");
  ExpectRefused("{", ErrorCode::kCorrupt, "not valid JSON");
}

TEST(NgramConfig, SumsThatOverflowAreRefused) {
  // 2 tokens of 2^32 - 1 and a table of about 2^31.4 rows: 64 bits.
  ExpectRefused(R"({"vocab_size": 4294967295, "hidden_size": 2, "ngram_vocab_size_ratio": 0.65,
                    "emb_neighbor_num": 2, "emb_split_num": 1, "eos_token_id": 2})",
                ErrorCode::kCorrupt, "to fit 63 bits");
}

TEST(NgramConfig, RowsPaddedToAMultiple) {
  const NgramConfig config = Parsed(With("\"eos_token_id\"", "\"embP\": 64, \"eos_token_id\""));
  EXPECT_EQ(config.rows(0), 10223617u);
  EXPECT_EQ(config.stored_rows(0), 10223680u);  // 159745 * 64
  ExpectRefused(With("\"eos_token_id\"", "\"embP\": 0, \"eos_token_id\""), ErrorCode::kCorrupt,
                "embP: expected a whole number from 1");
}

TEST(NgramConfig, ArchitectureSelectsTheScale) {
  ExpectRefused(With("LongcatFlashNgramForCausalLM", "SomethingElse"), ErrorCode::kUnsupported,
                "architectures 'SomethingElse' is not supported");
  NgramConfigOverrides full;
  full.scale = NgramScale::kFullWord;
  EXPECT_EQ(Parsed(With("LongcatFlashNgramForCausalLM", "SomethingElse"), full).scale,
            NgramScale::kFullWord);
  EXPECT_EQ(
      Parsed(With("\"eos_token_id\"", "\"ngram_fix_normalize_factor\": true, \"eos_token_id\""))
          .scale,
      NgramScale::kFixedFactor);
  EXPECT_EQ(Parsed(With("\"architectures\": [\"LongcatFlashNgramForCausalLM\"], ", "")).scale,
            NgramScale::kAverage);
}

TEST(NgramConfig, IgnoredTokens) {
  const std::string scope = "\"special_token_scope\": \"0:4,36:55\", ";
  const NgramConfig off = Parsed(With("\"eos_token_id\"", scope + "\"eos_token_id\""));
  EXPECT_TRUE(off.ignored.empty());
  const NgramConfig on = Parsed(
      With("\"eos_token_id\"", scope + "\"ngram_exclude_sp_token\": true, \"eos_token_id\""));
  EXPECT_EQ(on.ignored, (std::vector<TokenRange>{{0, 4}, {36, 55}}));
  EXPECT_TRUE(on.Stops(3));
  EXPECT_FALSE(on.Stops(4));
  EXPECT_TRUE(on.Stops(54));
  EXPECT_FALSE(on.Stops(55));
  EXPECT_TRUE(off.Stops(2));  // eos
  EXPECT_FALSE(off.Stops(3));
  const NgramConfig list =
      Parsed(With("\"eos_token_id\"", "\"oe_ignored_token_ids\": [7, 8, 20], \"eos_token_id\""));
  EXPECT_EQ(list.ignored, (std::vector<TokenRange>{{7, 9}, {20, 21}}));
  NgramConfigOverrides none;
  none.ignored_tokens = "";
  EXPECT_TRUE(
      Parsed(With("\"eos_token_id\"", "\"oe_ignored_token_ids\": [7], \"eos_token_id\""), none)
          .ignored.empty());
}

TEST(ParseTokenRanges, RefusesWhatIsNotARange) {
  EXPECT_TRUE(ParseTokenRanges("").value().empty());
  EXPECT_EQ(ParseTokenRanges("5:6").value(), (std::vector<TokenRange>{{5, 6}}));
  for (const char* wrong : {"5", "5:", ":6", "6:5", "5:5", "5:6,", ",5:6", "5:6,,7:8", "a:b",
                            "5:6x", "-1:3", "5 :6", "5:4294967296"}) {
    Result<std::vector<TokenRange>> ranges = ParseTokenRanges(wrong);
    ASSERT_FALSE(ranges.ok()) << wrong;
    EXPECT_THAT(ranges.error().message(), HasSubstr(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace sprat
