#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "ngram/count_allocations_for_test.h"
#include "ngram/embedding_for_test.h"
#include "ngram/tiny_ngram_for_test.h"
#include "sprat/ngram.h"

namespace sprat {
namespace {

using testing::HasSubstr;
// Every word row is [10, 0, 10, 0], every projected row [0, 5, 0, 5], G = 4.
TEST(B65, ScalesMatchHandComputedValues) {
  TinyNgram tiny;
  tiny.hidden = 4;
  tiny.Draw();
  for (size_t i = 0; i < tiny.word.size(); ++i) tiny.word[i] = i % 2 == 0 ? 10.0f : 0.0f;
  for (auto& table : tiny.tables) std::fill(table.begin(), table.end(), 1.0f);
  for (auto& projection : tiny.projections) projection = {0, 5, 0, 5};
  const std::filesystem::path directory = tiny.Write();
  const Tokens token{7};
  EXPECT_EQ(Embed(Opened(directory), {}, token), (Values{2, 4, 2, 4}));
  NgramOptions options;
  options.scale = NgramScale::kFullWord;
  EXPECT_EQ(Embed(Opened(directory, options), {}, token), (Values{10, 4, 10, 4}));
  options.scale = NgramScale::kFixedFactor;
  const Values fixed = Embed(Opened(directory, options), {}, token);
  EXPECT_NEAR(fixed[0], 4.472136, 1e-6);  // 10 / sqrt(5)
  EXPECT_NEAR(fixed[1], 8.944272, 1e-6);  // 20 / sqrt(5)
}

TEST(B65, AnUnknownArchitectureNeedsItsScaleGiven) {
  TinyNgram tiny;
  tiny.config_json["architectures"] = "[\"SiblingForCausalLM\"]";
  const std::filesystem::path directory = tiny.Write();
  ExpectRefused(directory, {}, ErrorCode::kUnsupported, "SiblingForCausalLM");
  NgramOptions options;
  options.scale = NgramScale::kFullWord;
  EXPECT_EQ(Opened(directory, options).info().scale, NgramScale::kFullWord);
}

TEST(NgramEmbedding, MatchesDoublePrecisionInEveryForm) {
  TinyNgram tiny;
  tiny.hidden = 3072;  // 12 tables of 256, as in Flash-Lite
  tiny.neighbours = 4;
  tiny.splits = 4;
  const std::filesystem::path directory = tiny.Write();
  const Tokens tokens = RandomTokens(150, tiny.vocabulary, 3);
  const std::vector<double> exact =
      ReferenceVectors(tiny, tokens, {tiny.eos}, ReferenceScale::kAverage);
  for (const NgramTables form :
       {NgramTables::kMapped, NgramTables::kResident, NgramTables::kCached}) {
    const NgramEmbedding model = Opened(directory, Form(form));
    EXPECT_LT(WorstRowError(Embed(model, {}, tokens), exact, tiny.hidden), 0.005) << Name(form);
    EXPECT_EQ(model.info().form, form);
  }
  const NgramEmbedding fp8 = Opened(directory, Form(NgramTables::kFp8));
  const double error = WorstRowError(Embed(fp8, {}, tokens), exact, tiny.hidden);
  EXPECT_LT(error, 0.03);
  EXPECT_GT(error, 0.001);  // it did quantise
  EXPECT_EQ(fp8.info().row_bytes, 256u + 4u);
}

// E4M3 rounds a value by 2.65 % of it in the root mean square, and so a row of many values; rows of
// few scatter around that, and the worst of them may pass the 3 % that wide rows keep.
TEST(NgramEmbedding, Fp8RowsOfNarrowModelsScatterAroundTheErrorOfTheFormat) {
  for (const uint32_t hidden : {24u, 384u}) {
    TinyNgram tiny;
    tiny.hidden = hidden;
    const std::filesystem::path directory = tiny.Write();
    const Tokens tokens = RandomTokens(150, tiny.vocabulary, 3);
    const std::vector<double> errors =
        RowErrors(Embed(Opened(directory, Form(NgramTables::kFp8)), {}, tokens),
                  ReferenceVectors(tiny, tokens, {tiny.eos}, ReferenceScale::kAverage), hidden);
    double squares = 0;
    for (const double error : errors) squares += error * error;
    const double mean = std::sqrt(squares / static_cast<double>(errors.size()));
    EXPECT_LT(mean, 0.03) << hidden;
    EXPECT_GT(mean, 0.005) << hidden;
  }
}

TEST(NgramEmbedding, OptionsOfTheConfigMatchDoublePrecision) {
  const Tokens tokens = RandomTokens(120, 60, 4);
  TinyNgram ignoring;
  ignoring.config_json = {{"ngram_exclude_sp_token", "true"},
                          {"special_token_scope", "\"0:4,36:55\""},
                          {"ngram_fix_normalize_factor", "true"}};
  std::set<uint32_t> stops{ignoring.eos};
  for (uint32_t id = 0; id < 60; ++id) {
    if (id < 4 || (36 <= id && id < 55)) stops.insert(id);
  }
  const Values ignored = Embed(Opened(ignoring.Write()), {}, tokens);
  EXPECT_LT(
      WorstRowError(ignored, ReferenceVectors(ignoring, tokens, stops, ReferenceScale::kFixed), 24),
      0.005);
  TinyNgram padded;
  padded.row_multiple = 64;
  padded.newer_names = true;
  padded.shards = 3;
  padded.hidden = 3072;
  const std::filesystem::path directory = padded.Write();
  const Tokens few = RandomTokens(20, 60, 4);
  const std::vector<double> exact =
      ReferenceVectors(padded, few, {padded.eos}, ReferenceScale::kAverage);
  for (const NgramTables form : {NgramTables::kMapped, NgramTables::kCached, NgramTables::kFp8}) {
    EXPECT_LT(WorstRowError(Embed(Opened(directory, Form(form)), {}, few), exact, padded.hidden),
              form == NgramTables::kFp8 ? 0.03 : 0.005);
  }
}

// Whatever the pieces, the batch, the form of the tables, the size of the cache and the number of
// threads: the same bits.
TEST(B67, PiecesBatchesFormsAndThreadsGiveTheSameBits) {
  TinyNgram tiny;
  tiny.hidden = 384;  // the whole is computed by all threads, short pieces by the calling one
  const std::filesystem::path directory = tiny.Write();
  const Tokens sequence = RandomTokens(90, tiny.vocabulary, 8);
  const Values mapped = Embed(Opened(directory), {}, sequence);
  for (const NgramTables form :
       {NgramTables::kMapped, NgramTables::kResident, NgramTables::kCached, NgramTables::kFp8}) {
    const Values whole = Embed(Opened(directory, Form(form)), {}, sequence);
    EXPECT_TRUE(form == NgramTables::kFp8 || whole == mapped);
    for (const size_t threads : {1, 3}) {
      NgramOptions options = Form(form, 10 * 192);  // ten slots: two tokens at once
      options.threads = threads;
      const NgramEmbedding model = Opened(directory, options);
      EXPECT_EQ(Embed(model, {}, sequence), whole);
      for (const size_t size : {1, 2, 7, 89}) {
        Values pieces;
        for (size_t first = 0; first < sequence.size(); first += size) {
          const size_t kept = std::min<size_t>(first, tiny.neighbours - 1);
          const auto at = sequence.begin() + static_cast<ptrdiff_t>(first);
          const Tokens context(at - static_cast<ptrdiff_t>(kept), at);
          const Tokens tokens(at, sequence.begin() + static_cast<ptrdiff_t>(
                                                         std::min(first + size, sequence.size())));
          const Values piece = Embed(model, context, tokens);
          pieces.insert(pieces.end(), piece.begin(), piece.end());
        }
        ASSERT_EQ(pieces, whole) << "pieces of " << size << ", " << Name(form);
      }
    }
  }
}

TEST(B69, SequencesOfABatchDoNotSeeEachOther) {
  TinyNgram tiny;
  const NgramEmbedding model = Opened(tiny.Write());
  const Tokens first{7, 9}, second{11, 13}, none;
  Tokens fresh(2 * 4), later(2 * 4), both(4 * 4);
  const NgramPiece alone{none, second};
  ASSERT_TRUE(model.Ids({&alone, 1}, fresh).ok());
  static_cast<void>(Embed(model, none, first));
  ASSERT_TRUE(model.Ids({&alone, 1}, later).ok());
  EXPECT_EQ(later, fresh);
  const NgramPiece pieces[] = {{none, first}, {none, none}, {none, second}};
  ASSERT_TRUE(model.Ids(pieces, both).ok());
  EXPECT_EQ(Tokens(both.begin() + 8, both.end()), fresh);
  Values out(4 * 24);
  ASSERT_TRUE(model.EmbedBatch(pieces, {}, out).ok());
  Values expected = Embed(model, none, first);
  const Values row = Embed(model, none, second);
  expected.insert(expected.end(), row.begin(), row.end());
  EXPECT_EQ(out, expected);
}

TEST(B69, ThreadsGetTheBitsOfAFreshModelUnderEviction) {
  TinyNgram tiny;
  const std::filesystem::path directory = tiny.Write();
  const NgramEmbedding resident = Opened(directory, Form(NgramTables::kResident));
  const NgramEmbedding cached = Opened(directory, Form(NgramTables::kCached, 40 * 64));
  std::atomic<size_t> different{0};
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 32; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (uint32_t i = 0; i < 5; ++i) {
        const Tokens tokens =
            RandomTokens(1 + random() % 30, tiny.vocabulary, static_cast<uint32_t>(random()));
        if (Embed(cached, {}, tokens) != Embed(resident, {}, tokens)) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0u);
  EXPECT_GT(cached.counters().evictions, 100u);
  EXPECT_GT(cached.counters().hits, 0u);
  EXPECT_EQ(resident.counters().misses, 0u);
}

TEST(NgramEmbedding, WordRowsOfTheCallerReplaceTheTable) {
  TinyNgram tiny;
  const Tokens tokens{5, 6, 5, 40};
  const Values whole = Embed(Opened(tiny.Write()), {}, tokens);
  Values word;
  for (const uint32_t token : tokens) {
    word.insert(word.end(), tiny.word.begin() + token * 24, tiny.word.begin() + (token + 1) * 24);
  }
  tiny.write_word = false;
  const std::filesystem::path directory = tiny.Write();
  ExpectRefused(directory, {}, ErrorCode::kCorrupt, "no tensor model.embed_tokens.weight [60, 24]");
  NgramOptions options;
  options.word_table = false;
  const NgramEmbedding model = Opened(directory, options);
  const NgramPiece piece{{}, tokens};
  Values out(whole.size());
  ASSERT_TRUE(model.EmbedBatch({&piece, 1}, word, out).ok());
  EXPECT_EQ(out, whole);
  Result<void> without = model.EmbedBatch({&piece, 1}, {}, out);
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.error().message(), HasSubstr("opened without its word table"));
}

TEST(NgramEmbedding, WrongInputIsNamed) {
  TinyNgram tiny;
  const NgramEmbedding model = Opened(tiny.Write());
  Values out(48);
  const Tokens good{1, 2}, bad{1, 60};
  Result<void> token = model.Embed({}, bad, out);
  ASSERT_FALSE(token.ok());
  EXPECT_EQ(token.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(token.error().message(), HasSubstr("token 1 of piece 0 is 60"));
  Result<void> context = model.Embed(bad, good, out);
  ASSERT_FALSE(context.ok());
  EXPECT_THAT(context.error().message(), HasSubstr("context token 1 of piece 0 is 60"));
  Result<void> size = model.Embed({}, good, std::span(out).first(47));
  ASSERT_FALSE(size.ok());
  EXPECT_THAT(size.error().message(), HasSubstr("room for 47 values, expected 48"));
  // What is further back than N - 1 = 2 tokens does not count, not even what is no token.
  const Tokens far{1, 60, 3, 4}, near{3, 4};
  EXPECT_EQ(Embed(model, far, good), Embed(model, near, good));
  Tokens room(1);
  Result<void> ids = model.Ids({}, room);
  ASSERT_FALSE(ids.ok());
  EXPECT_TRUE(model.Embed({}, {}, {}).ok());
  EXPECT_TRUE(model.Embed({}, good, out).ok());
}

TEST(NgramEmbedding, AnArenaSmallerThanATokenIsRefused) {
  TinyNgram tiny;
  ExpectRefused(tiny.Write(), Form(NgramTables::kCached, 3 * 64), ErrorCode::kInvalidArgument,
                "holds 3 rows of 12, expected at least the 4 of one token");
}

TEST(NgramEmbedding, AFileCutUnderACachedModelFailsTheBatchOnly) {
  TinyNgram tiny;
  tiny.write_word = false;
  const std::filesystem::path directory = tiny.Write();
  NgramOptions options = Form(NgramTables::kCached);
  options.word_table = false;
  const NgramEmbedding model = Opened(directory, options);
  const Values word(24);
  Values out(24);
  const Tokens token{5};
  const NgramPiece piece{{}, token};
  ASSERT_TRUE(model.EmbedBatch({&piece, 1}, word, out).ok());
  const Values before = out;
  const std::filesystem::path file = directory / "model.safetensors";
  const auto size = std::filesystem::file_size(file);
  std::filesystem::copy_file(file, directory / "copy");
  std::filesystem::resize_file(file, 3000);  // the header and the start of table 0
  const Tokens other{50};
  const NgramPiece missing{{}, other};
  Result<void> failed = model.EmbedBatch({&missing, 1}, word, out);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kIo);
  EXPECT_THAT(failed.error().message(), HasSubstr("model.safetensors"));
  ASSERT_TRUE(model.EmbedBatch({&piece, 1}, word, out).ok());  // still in the arena
  EXPECT_EQ(out, before);
  EXPECT_EQ(model.counters().failures, 1u);
  std::filesystem::resize_file(file, size);
}

TEST(NgramEmbedding, PrefetchedTokensAreHits) {
  TinyNgram tiny;
  const NgramEmbedding model = Opened(tiny.Write(), Form(NgramTables::kCached));
  const Tokens tokens = RandomTokens(40, tiny.vocabulary, 9);
  const NgramPiece piece{{}, tokens};
  ASSERT_TRUE(model.Prefetch({&piece, 1}).ok());
  const uint64_t reads = model.counters().reads;
  EXPECT_GT(reads, 40u);
  static_cast<void>(Embed(model, {}, tokens));
  EXPECT_EQ(model.counters().reads, reads);
  EXPECT_EQ(model.info().cache_slots,
            std::min<uint64_t>((size_t{1} << 20) / 64, model.info().rows));
  const Tokens wrong{60};
  const NgramPiece no_token{{}, wrong};
  Result<void> refused = model.Prefetch({&no_token, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("token 0 of piece 0 is 60"));
  EXPECT_TRUE(Opened(tiny.Write()).Prefetch({&piece, 1}).ok());  // mapped tables: nothing to do
}

TEST(NgramEmbedding, AllocatesNothingOnceItHasRun) {
  TinyNgram tiny;
  const std::filesystem::path directory = tiny.Write();
  const Tokens tokens = RandomTokens(40, tiny.vocabulary, 10);
  for (const NgramTables form : {NgramTables::kMapped, NgramTables::kFp8, NgramTables::kCached}) {
    const NgramEmbedding model = Opened(directory, Form(form));
    Values out(tokens.size() * 24);
    ASSERT_TRUE(model.Embed({}, tokens, out).ok());
    const size_t before = AllocationsOfThisThread();
    const Result<void> embedded = model.Embed({}, tokens, out);
    EXPECT_EQ(AllocationsOfThisThread(), before) << Name(form);
    EXPECT_TRUE(embedded.ok());
  }
}

}  // namespace
}  // namespace sprat
