// What NgramEmbedding::Open takes and refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "ngram/embedding_for_test.h"
#include "ngram/ngram_files.h"
#include "ngram/row_tables.h"
#include "ngram/tiny_ngram_for_test.h"
#include "sprat/ngram.h"

namespace sprat {
namespace {

using testing::HasSubstr;

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

// A model whose tables are F8_E4M3 as a checkpoint stores them.
struct NativeFp8 {
  bool row_scales = false;        // a scale a row, or one a table
  std::string suffix = "_scale";  // of their names; "": there are none
  float first_scale = 0.01f;
  size_t more_scales = 0;  // than there should be

  // `tiny` gets the values that the codes stand for.
  std::filesystem::path Write(TinyNgram& tiny) const;
};

std::filesystem::path NativeFp8::Write(TinyNgram& tiny) const {
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
    const size_t rows = tiny.rows(i);
    Values scales(row_scales ? rows : 1);
    for (size_t row = 0; row < scales.size(); ++row) {
      scales[row] = first_scale + static_cast<float>(row) * 0.001f;
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
    add(tiny.TableName(i), "F8_E4M3", "[" + std::to_string(rows) + ", 6]", codes);
    scales.resize(scales.size() + more_scales, 1.0f);
    const std::string shape = "[" + std::to_string(scales.size()) + ", 1]";
    if (!suffix.empty()) {
      add(tiny.TableName(i) + suffix, "F32", scales.size() > 1 ? shape : "[]", floats(scales));
    }
    add(tiny.ProjectionName(i), "F32", "[24, 6]", floats(tiny.projections[i]));
  }
  const std::filesystem::path directory = tiny.Write();
  WriteTestFile(directory / "model.safetensors", RawSafetensors(header + "}", bytes));
  return directory;
}

TEST(NgramEmbedding, NativeFp8MatchesDoublePrecision) {
  for (const bool row_scales : {false, true}) {
    for (const char* suffix : {"_scale", "_scale_inv"}) {
      TinyNgram tiny;
      tiny.newer_names = row_scales;
      const std::filesystem::path directory =
          NativeFp8{.row_scales = row_scales, .suffix = suffix}.Write(tiny);
      const Tokens tokens = RandomTokens(100, 60, 6);
      const std::vector<double> exact =
          ReferenceVectors(tiny, tokens, {2}, ReferenceScale::kAverage);
      const NgramEmbedding model = Opened(directory);
      EXPECT_EQ(model.info().row_bytes, row_scales ? 10u : 6u);
      const Values mapped = Embed(model, {}, tokens);
      EXPECT_LT(WorstRowError(mapped, exact, 24), 0.005);
      for (const NgramTables form :
           {NgramTables::kResident, NgramTables::kFp8, NgramTables::kCached}) {
        EXPECT_EQ(Embed(Opened(directory, Form(form)), {}, tokens), mapped) << Name(form);
      }
    }
  }
}

TEST(NgramEmbedding, ScalesThatAreNoneAreNamed) {
  const std::string table = "model.ngram_embeddings.embedders.0.weight";
  const auto refuse = [](const NativeFp8& native, const std::string& message) {
    TinyNgram tiny;
    ExpectRefused(native.Write(tiny), {}, ErrorCode::kCorrupt, message);
  };
  refuse({.suffix = ""}, table + " is F8_E4M3, but there is no " + table + "_scale");
  refuse({.more_scales = 1},
         table + "_scale is [2, 1], expected 1 element or one for each of 451 rows");
  refuse({.row_scales = true, .more_scales = 1}, table + "_scale is [452, 1]");
  refuse({.first_scale = 0}, table + ": scales of table 0: scale 0 is 0, expected a positive");
  refuse({.first_scale = -1}, "scale 0 is -1, expected a positive number");
  refuse({.row_scales = true, .first_scale = std::numeric_limits<float>::infinity()},
         "scale 0 is inf, expected a positive number");
  refuse({.first_scale = std::numeric_limits<float>::quiet_NaN()},
         "scale 0 is nan, expected a positive number");
}

// Both families of names, with "model." before them or not, in one file or in three.
TEST(NgramEmbedding, NamesAndShardsDoNotMatter) {
  const Tokens tokens = RandomTokens(40, 60, 11);
  const TinyNgram plain;
  const Values expected = Embed(Opened(TinyNgram(plain).Write()), {}, tokens);
  for (const bool newer : {false, true}) {
    for (const bool bare : {false, true}) {
      for (const size_t shards : {1, 3}) {
        TinyNgram tiny;
        tiny.newer_names = newer;
        tiny.bare_names = bare;
        tiny.shards = shards;
        const std::filesystem::path directory = tiny.Write();
        for (const NgramTables form : {NgramTables::kMapped, NgramTables::kCached}) {
          EXPECT_EQ(Embed(Opened(directory, Form(form)), {}, tokens), expected)
              << newer << bare << shards << Name(form);
        }
      }
    }
  }
}

TEST(NgramEmbedding, TablesOfTwoTypesAreRefused) {
  TinyNgram tiny;
  tiny.dtypes["model.ngram_embeddings.embedders.2.weight"] = DType::kF32;
  ExpectRefused(tiny.Write(), {}, ErrorCode::kCorrupt,
                "model.ngram_embeddings.embedders.2.weight is F32, expected BF16 like "
                "model.ngram_embeddings.embedders.0.weight");
  TinyNgram whole_numbers;
  whole_numbers.dtype = DType::kI64;
  ExpectRefused(whole_numbers.Write(), {}, ErrorCode::kUnsupported, "is I64, supported are BF16");
}

// Before tables are loaded, and by Describe too.
TEST(NgramEmbedding, TypesOfWordRowsAndProjectionsAreChecked) {
  for (const char* name :
       {"model.embed_tokens.weight", "model.ngram_embeddings.post_projs.1.weight"}) {
    TinyNgram tiny;
    tiny.dtypes[name] = DType::kI64;
    const std::filesystem::path directory = tiny.Write();
    const std::string message = std::string(name) + " is I64, supported are BF16, F16 and F32";
    ExpectRefused(directory, {}, ErrorCode::kUnsupported, message.c_str());
    const Result<NgramInfo> described = NgramEmbedding::Describe(directory);
    ASSERT_FALSE(described.ok()) << name;
    EXPECT_THAT(described.error().message(), HasSubstr(message));
  }
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
      HasSubstr(
          "a row cache of 7 slots takes 5001 bytes with its map and the tables' scales, more than "
          "the 5000"));
}

}  // namespace
}  // namespace sprat
