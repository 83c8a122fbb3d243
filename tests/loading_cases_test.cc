// Faults met in other engines, of the kind "loading", as tests named after their reports.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "engine_for_test.h"

namespace sprat {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kText{"good morning, river bank"};

std::vector<float> VectorOfModel(const TinyModel& model) {
  return VectorOf(OpenOrDie(model), std::string(kText));
}

// A good directory whose weights are replaced by these bytes.
std::filesystem::path WithWeights(std::string_view bytes) {
  TinyModel model;
  model.write_weights = false;
  std::filesystem::path directory = model.Write();
  WriteTestFile(directory / "model.safetensors", bytes);
  return directory;
}

TEST(B46, EveryPublishedSchemeOfNamesGivesTheSameBits) {
  const std::vector<float> plain = VectorOfModel({});
  TinyModel model;
  for (const char* prefix : {"bert.", "model.", "0.auto_model."}) {
    model.prefix = prefix;
    EXPECT_TRUE(SameBits(VectorOfModel(model), plain)) << prefix;
  }
  model.prefix = "bert.";
  model.gamma_beta = true;
  model.unused_tensors = true;
  EXPECT_TRUE(SameBits(VectorOfModel(model), plain));
}

TEST(B46, AnUnknownPrefixNamesTheTensorAndSomeThatExist) {
  TinyModel model;
  model.prefix = "electra.";
  EXPECT_THAT(
      OpenFault(model.Write(), ErrorCode::kCorrupt),
      AllOf(StartsWith("DIR/model.safetensors: "), HasSubstr("'embeddings.word_embeddings.weight'"),
            HasSubstr("'electra.embeddings.LayerNorm.bias'")));
}

TEST(B48, ShardsGiveTheSameBits) {
  TinyModel model;
  const std::vector<float> whole = VectorOfModel(model);
  model.shards = 2;
  EXPECT_TRUE(SameBits(VectorOfModel(model), whole));
}

TEST(B48, AMissingOrForeignShardIsRefused) {
  TinyModel model;
  model.shards = 2;
  const std::filesystem::path directory = model.Write();
  const std::filesystem::path second = directory / "model-00002-of-00002.safetensors";
  std::filesystem::rename(second, directory / "aside");
  EXPECT_EQ(OpenFault(directory, ErrorCode::kNotFound),
            "DIR/model.safetensors.index.json: DIR/model-00002-of-00002.safetensors: No such file "
            "or directory");
  WriteTestFile(directory / "model.safetensors.index.json",
                R"({"weight_map": {"embeddings.word_embeddings.weight": "../x.safetensors"}})");
  EXPECT_EQ(OpenFault(directory, ErrorCode::kCorrupt),
            "DIR/model.safetensors.index.json: weight_map[\"embeddings.word_embeddings.weight\"]: "
            "expected the name of a file beside the index, got \"../x.safetensors\"");
}

TEST(B50, AHostileHeaderLengthStopsTheStart) {
  for (const std::string_view length :
       {"", "1234567", "\xff\xff\xff\xff\xff\xff\xff\xff", "\xfd\xff\xff\xff\xff\xff\xff\xff"}) {
    EXPECT_THAT(OpenFault(WithWeights(length), ErrorCode::kCorrupt),
                StartsWith("DIR/model.safetensors: the file is "));
  }
}

TEST(B52, ADuplicateKeyStopsTheStart) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_EQ(OpenFault(WithWeights(RawSafetensors(header, "12345678")), ErrorCode::kCorrupt),
            "DIR/model.safetensors: header: duplicate key \"a\"");
}

TEST(B54, WhatIsNoTensorFileIsNamed) {
  EXPECT_THAT(OpenFault(WithWeights("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
                        ErrorCode::kCorrupt),
              StartsWith("DIR/model.safetensors: looks like a Git LFS pointer"));
  EXPECT_THAT(OpenFault(WithWeights("<!DOCTYPE html><html>"), ErrorCode::kCorrupt),
              StartsWith("DIR/model.safetensors: looks like a web page"));
  const std::string good =
      ReadFile(TinyModel{}.Write() / "model.safetensors", size_t{1} << 24).value();
  for (const size_t size : {good.size() - 1, good.size() / 2, size_t{8}}) {
    EXPECT_THAT(OpenFault(WithWeights(good.substr(0, size)), ErrorCode::kCorrupt),
                StartsWith(fmt::format("DIR/model.safetensors: the file is {} bytes, but its "
                                       "header",
                                       size)));
  }
}

TEST(B56, AMissingDirectoryOrFileIsNamed) {
  const std::filesystem::path directory = NewTestDirectory("sprat-b56");
  EXPECT_EQ(OpenFault(directory / "absent", ErrorCode::kNotFound), "DIR: no such model directory");
  WriteTestFile(directory / "file", "x");
  EXPECT_EQ(OpenFault(directory / "file", ErrorCode::kNotFound),
            "DIR: a file, expected the directory that holds the model");
  EXPECT_EQ(OpenFault(NewTestDirectory("sprat-b56"), ErrorCode::kNotFound),
            "DIR/config.json: No such file or directory");

  TinyModel model;
  model.write_weights = false;
  const std::filesystem::path unweighted = model.Write();
  EXPECT_EQ(OpenFault(unweighted, ErrorCode::kNotFound),
            "DIR/model.safetensors: No such file or directory");
  WriteTestFile(unweighted / "pytorch_model.bin", "x");
  EXPECT_EQ(OpenFault(unweighted, ErrorCode::kNotFound),
            "DIR/model.safetensors: no such file; pytorch_model.bin is there, but only "
            "safetensors is read");

  model = {};
  model.vocab_txt = false;
  EXPECT_THAT(OpenFault(model.Write(), ErrorCode::kNotFound), HasSubstr("vocab.txt"));
}

TEST(B56, ABrokenConfigIsNamedWithKeyAndValue) {
  const std::filesystem::path directory = TinyModel{}.Write();
  WriteTestFile(directory / "config.json", "");
  EXPECT_EQ(OpenFault(directory, ErrorCode::kCorrupt), "DIR/config.json: empty, expected JSON");
  WriteTestFile(directory / "config.json", "[]");
  EXPECT_EQ(OpenFault(directory, ErrorCode::kCorrupt),
            "DIR/config.json: expected an object, got an array");
  TinyModel model;
  model.config_json["hidden_size"] = "\"384\"";
  EXPECT_EQ(OpenFault(model.Write(), ErrorCode::kCorrupt),
            "DIR/config.json: hidden_size: expected a whole number from 1 to 65536, got \"384\"");
  model.config_json = {{"num_attention_heads", "5"}};
  EXPECT_EQ(OpenFault(model.Write(), ErrorCode::kCorrupt),
            "DIR/config.json: num_attention_heads: expected a divisor of hidden_size 32, got 5");
}

TEST(B56, ALayerThatIsNotInTheFileIsNamed) {
  TinyModel model;
  model.config_json["num_hidden_layers"] = "3";
  EXPECT_THAT(OpenFault(model.Write(), ErrorCode::kCorrupt),
              AllOf(StartsWith("DIR/model.safetensors: "),
                    HasSubstr("'encoder.layer.2.attention.self.query.weight'")));
}

TEST(B56, AWrongShapeIsNamedWithBoth) {
  TinyModel model;
  model.config_json["intermediate_size"] = "96";
  EXPECT_THAT(OpenFault(model.Write(), ErrorCode::kCorrupt),
              AllOf(StartsWith("DIR/model.safetensors: "), HasSubstr("64"), HasSubstr("96"),
                    HasSubstr("encoder.layer.0.intermediate.dense")));
}

TEST(B56, AnUnreadableFileIsNamedWithTheReason) {
  const std::filesystem::path directory = TinyModel{}.Write();
  std::filesystem::permissions(directory, std::filesystem::perms::owner_all |
                                              std::filesystem::perms::others_read |
                                              std::filesystem::perms::others_exec);
  std::filesystem::permissions(directory / "config.json", std::filesystem::perms::none);
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);  // root may read everything
  }
  const std::string fault = OpenFault(directory, ErrorCode::kIo);
  if (user == 0) {
    ASSERT_EQ(seteuid(user), 0);
  }
  EXPECT_EQ(fault, "DIR/config.json: Permission denied");
}

// bge's files say do_lower_case beside a tokenizer that lower-cases anyway.
TEST(LowerCasing, ChangesNothingBeforeATokenizerThatLowerCases) {
  TinyModel model;
  const std::filesystem::path directory = model.Write();
  const std::vector<float> plain = VectorOf(OpenOrDie(directory), "GOOD Morning");
  WriteTestFile(directory / "sentence_bert_config.json",
                R"({"max_seq_length": 64, "do_lower_case": true})");
  EXPECT_TRUE(SameBits(VectorOf(OpenOrDie(directory), "GOOD Morning"), plain));

  model.lowercase = false;
  model.vocabulary = TinyVocabulary();
  model.vocabulary.push_back("A");
  const std::filesystem::path cased = model.Write();
  WriteTestFile(cased / "sentence_bert_config.json", R"({"do_lower_case": true})");
  EXPECT_EQ(OpenFault(cased, ErrorCode::kUnsupported),
            "DIR/sentence_bert_config.json: do_lower_case 'true' is not supported with a tokenizer "
            "that keeps upper case; supported: false, or a tokenizer that lower-cases");
}

TEST(B58, EveryIdOfTheTokenizerHasARow) {
  TinyModel model;
  model.vocabulary = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",   "[MASK]", "good",
                      "a",     "b",     "c",     "morning", "river",  "bank"};
  EXPECT_EQ(VectorOf(OpenOrDie(model), "bank").size(), 32u);
  model.config.vocabulary = 10;
  EXPECT_THAT(OpenFault(model.Write(), ErrorCode::kCorrupt),
              AllOf(HasSubstr("11"), HasSubstr("10 rows")));
  model.config.vocabulary = 16;  // rows that no id uses are fine
  const Engine padded = OpenOrDie(model);
  EXPECT_TRUE(AllFinite(VectorOf(padded, "bank")));

  model.config.vocabulary = 12;
  model.config_json["vocab_size"] = "11";
  EXPECT_THAT(
      OpenFault(model.Write(), ErrorCode::kCorrupt),
      AllOf(HasSubstr("embeddings.word_embeddings.weight"), HasSubstr("11"), HasSubstr("12")));
}

TEST(B58, AnAddedTokenBeyondTheTableIsRefused) {
  TinyModel model;
  model.vocab_txt = false;
  model.tokenizer_json = true;
  const std::filesystem::path directory = model.Write();
  OpenOrDie(directory);
  std::string json = ReadFile(directory / "tokenizer.json", 1 << 20).value();
  const std::string start = "\"added_tokens\": [";
  json.insert(json.find(start) + start.size(),
              R"({"id": 5000, "special": false, "content": "[far]", "single_word": false,
                  "lstrip": false, "rstrip": false, "normalized": false}, )");
  WriteTestFile(directory / "tokenizer.json", json);
  EXPECT_THAT(OpenFault(directory, ErrorCode::kCorrupt),
              HasSubstr("the embedding table has only 100 rows"));
}

TEST(B58, TokenIdsGivenByTheCallerAreChecked) {
  const Engine engine = OpenOrDie(TinyModel{});
  const std::vector<uint32_t> ids = {2, static_cast<uint32_t>(engine.info().vocabulary), 3};
  const std::vector<size_t> offsets = {0, 3};
  Result<Embeddings> refused = engine.EmbedTokens(ids, offsets);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), HasSubstr(std::to_string(ids[1])));
}

}  // namespace
}  // namespace sprat
