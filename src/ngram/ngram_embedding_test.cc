#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

#include "ngram/count_allocations_for_test.h"
#include "ngram/ngram_files.h"
#include "ngram/row_tables.h"
#include "ngram/tiny_ngram_for_test.h"
#include "sprat/ngram.h"

namespace sprat {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<uint32_t>;
using Values = std::vector<float>;

NgramEmbedding Opened(const std::filesystem::path& directory, NgramOptions options = {}) {
  if (options.threads == 0) options.threads = 2;
  Result<NgramEmbedding> model = NgramEmbedding::Open(directory, options);
  if (!model.ok()) {
    ADD_FAILURE() << model.error().message();
    std::abort();
  }
  return std::move(model).value();
}

NgramOptions Form(NgramTables form, size_t cache_bytes = 1 << 20) {
  NgramOptions options;
  options.tables = form;
  options.cache_bytes = cache_bytes;
  return options;
}

Values Embed(const NgramEmbedding& model, const Tokens& context, const Tokens& tokens) {
  Values out(tokens.size() * model.info().hidden);
  Result<void> embedded = model.Embed(context, tokens, out);
  EXPECT_TRUE(embedded.ok()) << embedded.error().message();
  return out;
}

Tokens RandomTokens(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<uint32_t> token(0, vocabulary - 1);
  Tokens tokens(count);
  for (uint32_t& x : tokens) x = token(random);
  return tokens;
}

// |found - exact| / |exact| of every row.
std::vector<double> RowErrors(const Values& found, const std::vector<double>& exact,
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

double WorstRowError(const Values& found, const std::vector<double>& exact, size_t hidden) {
  double worst = 0;
  for (const double error : RowErrors(found, exact, hidden)) {
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  return worst;
}

void ExpectRefused(const std::filesystem::path& directory, const NgramOptions& options,
                   ErrorCode code, std::string_view message) {
  Result<NgramEmbedding> model = NgramEmbedding::Open(directory, options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code(), code) << model.error().message();
  EXPECT_THAT(model.error().message(), HasSubstr(message));
}

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

TEST(NgramEmbedding, WiderTypesAreRounded) {
  const Tokens tokens = RandomTokens(50, 60, 5);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    TinyNgram tiny;
    tiny.dtype = dtype;
    const std::filesystem::path directory = tiny.Write();
    const NgramEmbedding model = Opened(directory);
    EXPECT_EQ(model.info().form, NgramTables::kResident);
    EXPECT_LT(WorstRowError(Embed(model, {}, tokens),
                            ReferenceVectors(tiny, tokens, {2}, ReferenceScale::kAverage), 24),
              0.005);
    ExpectRefused(directory, Form(NgramTables::kCached), ErrorCode::kUnsupported,
                  "not supported for cached tables");
  }
}

// F8_E4M3 tables as their checkpoint stores them, with one scale each or one for each row.
TEST(NgramEmbedding, NativeFp8MatchesDoublePrecision) {
  for (const bool row_scales : {false, true}) {
    TinyNgram tiny;
    tiny.Draw();
    std::string header = "{", bytes;
    const auto add = [&](const std::string& name, const char* type, const std::string& shape,
                         const std::string& content) {
      header += (header.size() > 1 ? ", \"" : "\"") + name + "\": {\"dtype\": \"" + type +
                "\", \"shape\": " + shape + ", \"data_offsets\": [" + std::to_string(bytes.size()) +
                ", " + std::to_string(bytes.size() + content.size()) + "]}";
      bytes += content;
    };
    const auto floats = [](const Values& values) {
      return std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    };
    add("model.embed_tokens.weight", "F32", "[60, 24]", floats(tiny.word));
    for (uint32_t i = 0; i < tiny.count(); ++i) {
      const std::string name = "model.ngram_embeddings.embedders." + std::to_string(i) + ".weight";
      const size_t rows = tiny.rows(i);
      Values scales(row_scales ? rows : 1);
      for (size_t row = 0; row < scales.size(); ++row) {
        scales[row] = 0.01f + static_cast<float>(row) * 0.001f;
      }
      std::string codes;
      for (size_t e = 0; e < rows * 6; ++e) {
        // A code of 0x00 .. 0x5f or its negative: magnitudes up to 30. The values of the reference.
        const auto code = static_cast<uint8_t>((e * 37 + i) % 0x60 | (e % 2) << 7);
        codes.push_back(static_cast<char>(code));
        const int exponent = code >> 3 & 15, mantissa = code & 7;
        const double magnitude =
            exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
        const double scale = scales[row_scales ? e / 6 : 0];
        tiny.tables[i][e] = static_cast<float>((code & 0x80 ? -1 : 1) * magnitude * scale);
      }
      add(name, "F8_E4M3", "[" + std::to_string(rows) + ", 6]", codes);
      add(name + "_scale", "F32", row_scales ? "[" + std::to_string(rows) + ", 1]" : "[]",
          floats(scales));
      add("model.ngram_embeddings.post_projs." + std::to_string(i) + ".weight", "F32", "[24, 6]",
          floats(tiny.projections[i]));
    }
    const std::filesystem::path directory = tiny.Write();
    WriteTestFile(directory / "model.safetensors", RawSafetensors(header + "}", bytes));
    const Tokens tokens = RandomTokens(100, 60, 6);
    const std::vector<double> exact = ReferenceVectors(tiny, tokens, {2}, ReferenceScale::kAverage);
    const Values mapped = Embed(Opened(directory), {}, tokens);
    EXPECT_LT(WorstRowError(mapped, exact, 24), 0.005);
    for (const NgramTables form :
         {NgramTables::kResident, NgramTables::kFp8, NgramTables::kCached}) {
      EXPECT_EQ(Embed(Opened(directory, Form(form)), {}, tokens), mapped) << Name(form);
    }
  }
}

// Whatever the pieces, the batch, the form of the tables, the size of the cache and the number of
// threads: the same bits.
TEST(B67, PiecesBatchesFormsAndThreadsGiveTheSameBits) {
  TinyNgram tiny;
  const std::filesystem::path directory = tiny.Write();
  const Tokens sequence = RandomTokens(90, tiny.vocabulary, 8);
  const Values whole = Embed(Opened(directory), {}, sequence);
  for (const NgramTables form :
       {NgramTables::kMapped, NgramTables::kResident, NgramTables::kCached}) {
    for (const size_t threads : {1, 3}) {
      NgramOptions options = Form(form, 10 * 64);  // ten slots: two tokens at once
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
  for (uint32_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (uint32_t i = 0; i < 20; ++i) {
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
  Tokens room(1);
  Result<void> ids = model.Ids({}, room);
  ASSERT_FALSE(ids.ok());
  EXPECT_TRUE(model.Embed({}, {}, {}).ok());
  EXPECT_TRUE(model.Embed({}, good, out).ok());
}

TEST(NgramEmbedding, ShapesThatDoNotFitTheConfigAreNamed) {
  const auto refuse = [](const char* name, std::vector<uint64_t> shape, const char* message) {
    TinyNgram tiny;
    tiny.shapes[name] = std::move(shape);
    ExpectRefused(tiny.Write(), {}, ErrorCode::kCorrupt, message);
  };
  // int(7.5 * 60) = 450: tables of 451, 453, 455, 457 rows of 6.
  refuse("model.ngram_embeddings.embedders.2.weight", {454, 6},
         "model.ngram_embeddings.embedders.2.weight is [454, 6], expected [455, 6]");
  refuse("model.ngram_embeddings.post_projs.3.weight", {6, 24},
         "model.ngram_embeddings.post_projs.3.weight is [6, 24], expected [24, 6]");
  refuse("model.embed_tokens.weight", {59, 24}, "is [59, 24], expected [60, 24]");
  TinyNgram plain;
  const std::filesystem::path directory = plain.Write();
  WriteTestFile(directory / "config.json", "{\"vocab_size\": 60, \"hidden_size\": 24}");
  ExpectRefused(directory, {}, ErrorCode::kUnsupported, "no n-gram embedding");
  ExpectRefused("/no/such/directory", {}, ErrorCode::kNotFound, "/no/such/directory/config.json");
}

// What Describe says is what Open then takes.
TEST(NgramEmbedding, DescribesWhatItWouldOpen) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const NgramTables form :
         {NgramTables::kMapped, NgramTables::kResident, NgramTables::kFp8, NgramTables::kCached}) {
      if (dtype == DType::kF32 && form == NgramTables::kCached) continue;
      TinyNgram tiny;
      tiny.dtype = dtype;
      tiny.write_word = dtype == DType::kF32;
      NgramOptions options = Form(form, 100 * 64);
      options.word_table = false;
      options.threads = 3;
      const std::filesystem::path directory = tiny.Write();
      const Result<NgramInfo> described = NgramEmbedding::Describe(directory, options);
      ASSERT_TRUE(described.ok()) << described.error().message();
      const NgramInfo &found = described.value(), opened = Opened(directory, options).info();
      EXPECT_EQ(found.form, opened.form);
      EXPECT_EQ(found.word_table, tiny.write_word);
      EXPECT_EQ(opened.word_table, tiny.write_word);
      EXPECT_EQ(found.row_bytes, opened.row_bytes);
      EXPECT_EQ(found.table_bytes, opened.table_bytes);
      EXPECT_EQ(found.resident_bytes, opened.resident_bytes);
      EXPECT_EQ(found.token_bytes, opened.token_bytes);
      EXPECT_EQ(found.cache_slots, form == NgramTables::kCached ? 100u : 0u);
      EXPECT_EQ(opened.cache_slots, found.cache_slots);
      EXPECT_EQ(found.reader, opened.reader);
      EXPECT_EQ(found.kernels, opened.kernels);
      EXPECT_EQ(found.threads, opened.threads);
    }
  }
  TinyNgram tiny;  // tables of 451, 453, 455, 457 rows of 6 values
  tiny.shapes["model.ngram_embeddings.embedders.2.weight"] = {454, 6};
  EXPECT_FALSE(NgramEmbedding::Describe(tiny.Write()).ok());
}

TEST(RowLayout, CountsTheBytesOfEachForm) {
  TinyNgram tiny;
  const Result<NgramFiles> files = OpenNgramFiles(tiny.Write(), {});
  ASSERT_TRUE(files.ok());
  const auto resident_bytes = [&](NgramTables form) {
    Result<RowLayout> layout =
        RowLayout::Of(files.value().config, files.value().tensors, Form(form, 100 * 64));
    return layout.value().resident_bytes;
  };
  EXPECT_EQ(resident_bytes(NgramTables::kMapped), 0u);
  EXPECT_EQ(resident_bytes(NgramTables::kResident), 1816u * 6 * 2);
  EXPECT_EQ(resident_bytes(NgramTables::kFp8), 1816u * (6 + 4));
  EXPECT_EQ(resident_bytes(NgramTables::kCached), RowCache::SizeBytes(100, 12));
}

TEST(RowLayout, MoreThanTheMemoryThereIsIsRefused) {
  const MemoryBudget memory{.available_bytes = 1000, .total_bytes = 5000};
  RowLayout layout{.form = NgramTables::kResident, .resident_bytes = 1000};
  EXPECT_TRUE(CheckMemory(layout, memory).ok());
  layout.resident_bytes = 1001;
  Result<void> refused = CheckMemory(layout, memory);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfMemory);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("resident tables take 1001 bytes of memory, and 1000 are available"));
  layout.form = NgramTables::kMapped;
  EXPECT_TRUE(CheckMemory(layout, memory).ok());
  // An arena fills as rows come: it may wait for memory that others have now.
  layout = {.form = NgramTables::kCached, .cache_slots = 7, .resident_bytes = 5000};
  EXPECT_TRUE(CheckMemory(layout, memory).ok());
  layout.resident_bytes = 5001;
  refused = CheckMemory(layout, memory);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(
      refused.error().message(),
      HasSubstr("a row cache of 7 slots takes 5001 bytes with its map, more than the 5000"));
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
