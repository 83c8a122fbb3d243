#include "model/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

constexpr int kRepeats{50};  // of every load that must fail, so that a leak would be seen

struct Fault {
  ErrorCode code;
  std::string message;  // the directory replaced by DIR
};

Fault FaultOf(const std::filesystem::path& directory) {
  Fault fault{.code = ErrorCode::kInternal, .message = "no error"};
  for (int i = 0; i < kRepeats; ++i) {
    Result<EncoderConfig> encoder = ReadEncoderConfig(directory);
    if (!encoder.ok()) {
      fault = {.code = encoder.error().code(), .message = encoder.error().message()};
      continue;
    }
    Result<SentenceConfig> sentence = ReadSentenceConfig(directory, encoder.value());
    if (!sentence.ok()) {
      fault = {.code = sentence.error().code(), .message = sentence.error().message()};
    }
  }
  const std::string path = directory.string();
  for (size_t at = fault.message.find(path); at != fault.message.npos;
       at = fault.message.find(path)) {
    fault.message.replace(at, path.size(), "DIR");
  }
  return fault;
}

void ExpectCorrupt(const std::filesystem::path& directory, std::string_view message) {
  const Fault fault = FaultOf(directory);
  EXPECT_EQ(fault.message, message);
  EXPECT_EQ(fault.code, ErrorCode::kCorrupt) << message;
}

void ExpectUnsupported(const std::filesystem::path& directory, std::string_view message) {
  const Fault fault = FaultOf(directory);
  EXPECT_EQ(fault.message, message);
  EXPECT_EQ(fault.code, ErrorCode::kUnsupported) << message;
}

// A directory whose config.json has `key` set to `json` ("" removes it).
std::filesystem::path WithKey(const std::string& key, const std::string& json) {
  TinyModel model;
  model.write_weights = false;
  model.config_json[key] = json;
  return model.Write();
}

// A directory with the file `name` of this content.
std::filesystem::path WithFile(std::string_view name, std::string_view content) {
  TinyModel model;
  model.write_weights = false;
  std::filesystem::path directory = model.Write();
  WriteTestFile(directory / name, content);
  return directory;
}

Result<SentenceConfig> ReadSentence(const std::filesystem::path& directory) {
  Result<EncoderConfig> encoder = ReadEncoderConfig(directory);
  if (!encoder.ok()) return std::move(encoder.error());
  return ReadSentenceConfig(directory, encoder.value());
}

// ---- config.json -------------------------------------------------------------------------------

TEST(ReadEncoderConfig, ReadsTheArchitectureOfMiniLm) {
  const std::filesystem::path directory = NewTestDirectory("sprat-config");
  WriteTestFile(directory / "config.json", R"({"architectures": ["BertModel"],
    "hidden_act": "gelu", "hidden_size": 384, "intermediate_size": 1536, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
    "num_hidden_layers": 6, "position_embedding_type": "absolute", "type_vocab_size": 2,
    "use_cache": true, "vocab_size": 30522})");
  Result<EncoderConfig> config = ReadEncoderConfig(directory);
  ASSERT_TRUE(config.ok()) << config.error().message();
  EXPECT_EQ(config.value().layers, 6u);
  EXPECT_EQ(config.value().hidden, 384u);
  EXPECT_EQ(config.value().heads, 12u);
  EXPECT_EQ(config.value().ffn, 1536u);
  EXPECT_EQ(config.value().vocabulary, 30522u);
  EXPECT_EQ(config.value().positions, 512u);
  EXPECT_EQ(config.value().token_types, 2u);
  EXPECT_EQ(config.value().layer_norm_eps, 1e-12f);
  EXPECT_EQ(config.value().activation, Activation::kGelu);
}

TEST(ReadEncoderConfig, ReadsEveryActivationAndRefusesOthers) {
  const auto activation = [](const std::string& json) {
    return ReadEncoderConfig(WithKey("hidden_act", json)).value().activation;
  };
  EXPECT_EQ(activation(""), Activation::kGelu);
  EXPECT_EQ(activation("\"gelu\""), Activation::kGelu);
  EXPECT_EQ(activation("\"gelu_new\""), Activation::kGeluTanh);
  EXPECT_EQ(activation("\"gelu_pytorch_tanh\""), Activation::kGeluTanh);
  EXPECT_EQ(activation("\"relu\""), Activation::kRelu);
  ExpectUnsupported(WithKey("hidden_act", "\"silu\""),
                    "DIR/config.json: hidden_act 'silu' is not supported; supported: gelu, "
                    "gelu_new, gelu_pytorch_tanh, relu");
  ExpectCorrupt(WithKey("hidden_act", "3"),
                "DIR/config.json: hidden_act: expected a string, got 3");
}

TEST(B42, LayerNormEpsIsReadAndDefaultsTo1em12) {
  const auto eps = [](const std::string& json) {
    return ReadEncoderConfig(WithKey("layer_norm_eps", json)).value().layer_norm_eps;
  };
  EXPECT_EQ(eps("1e-12"), 1e-12f);
  EXPECT_EQ(eps("1e-05"), 1e-5f);
  EXPECT_EQ(eps("0"), 0.0f);
  EXPECT_EQ(eps(""), 1e-12f);
  ExpectCorrupt(WithKey("layer_norm_eps", "-1e-12"),
                "DIR/config.json: layer_norm_eps: expected a number from 0 to 1, got -1e-12");
  ExpectCorrupt(WithKey("layer_norm_eps", "\"1e-12\""),
                "DIR/config.json: layer_norm_eps: expected a number, got \"1e-12\"");
}

TEST(B44, OnlyAbsolutePositionsAreAccepted) {
  EXPECT_TRUE(ReadEncoderConfig(WithKey("position_embedding_type", "")).ok());
  EXPECT_TRUE(ReadEncoderConfig(WithKey("position_embedding_type", "null")).ok());
  EXPECT_TRUE(ReadEncoderConfig(WithKey("position_embedding_type", "\"absolute\"")).ok());
  for (const std::string_view type : {"relative_key", "relative_key_query", "rope", "alibi"}) {
    ExpectUnsupported(
        WithKey("position_embedding_type", JsonQuoted(type)),
        fmt::format("DIR/config.json: position_embedding_type '{}' is not supported; supported: "
                    "absolute",
                    type));
  }
}

TEST(ReadEncoderConfig, RefusesOtherArchitectures) {
  ExpectUnsupported(WithKey("model_type", "\"roberta\""),
                    "DIR/config.json: model_type 'roberta' is not supported; supported: bert");
  ExpectCorrupt(WithKey("model_type", ""),
                "DIR/config.json: model_type is missing, expected \"bert\"");
  ExpectUnsupported(WithKey("is_decoder", "true"),
                    "DIR/config.json: is_decoder 'true' is not supported; supported: false");
  ExpectUnsupported(
      WithKey("add_cross_attention", "true"),
      "DIR/config.json: add_cross_attention 'true' is not supported; supported: false");
  ExpectUnsupported(WithKey("quantization_config", "{\"bits\":4}"),
                    "DIR/config.json: quantization_config '{\"bits\":4}' is not supported; "
                    "supported: no such key");
  ExpectUnsupported(WithKey("pruned_heads", "{\"0\":[1]}"),
                    "DIR/config.json: pruned_heads '{\"0\":[1]}' is not supported; supported: {}");
  EXPECT_TRUE(ReadEncoderConfig(WithKey("pruned_heads", "{}")).ok());
}

TEST(B56, AMissingDirectoryOrFileIsNamed) {
  const std::filesystem::path directory = NewTestDirectory("sprat-b56");
  const Fault absent = FaultOf(directory / "absent");
  EXPECT_EQ(absent.code, ErrorCode::kNotFound);
  EXPECT_EQ(absent.message, "DIR: no such model directory");
  WriteTestFile(directory / "file", "x");
  const Fault file = FaultOf(directory / "file");
  EXPECT_EQ(file.code, ErrorCode::kNotFound);
  EXPECT_EQ(file.message, "DIR: a file, expected the directory that holds the model");
  const Fault empty = FaultOf(directory);
  EXPECT_EQ(empty.code, ErrorCode::kNotFound);
  EXPECT_EQ(empty.message, "DIR/config.json: No such file or directory");
}

TEST(B56, ABrokenConfigIsNamedWithKeyAndValue) {
  ExpectCorrupt(WithFile("config.json", ""), "DIR/config.json: empty, expected JSON");
  ExpectCorrupt(WithFile("config.json", "[]"), "DIR/config.json: expected an object, got an array");
  ExpectCorrupt(WithFile("config.json", "7"), "DIR/config.json: expected an object, got a number");
  EXPECT_THAT(FaultOf(WithFile("config.json", "{\"a\": ")).message,
              testing::StartsWith("DIR/config.json: not valid JSON: "));
  ExpectCorrupt(WithFile("config.json", R"({"hidden_size": 32, "hidden_size": 64})"),
                "DIR/config.json: duplicate key \"hidden_size\"");
  ExpectCorrupt(WithKey("hidden_size", "\"384\""),
                "DIR/config.json: hidden_size: expected a whole number from 1 to 65536, got "
                "\"384\"");
  ExpectCorrupt(WithKey("hidden_size", "-32"),
                "DIR/config.json: hidden_size: expected a whole number from 1 to 65536, got -32");
  ExpectCorrupt(WithKey("hidden_size", "4294967328"),  // 32 modulo 2^32
                "DIR/config.json: hidden_size: expected a whole number from 1 to 65536, got "
                "4294967328");
  ExpectCorrupt(WithKey("hidden_size", ""),
                "DIR/config.json: hidden_size is missing, expected a positive whole number");
  ExpectCorrupt(WithKey("num_attention_heads", "5"),
                "DIR/config.json: num_attention_heads: expected a divisor of hidden_size 32, got "
                "5");
  ExpectCorrupt(WithKey("num_hidden_layers", "0"),
                "DIR/config.json: num_hidden_layers: expected a whole number from 1 to 1024, got "
                "0");
  ExpectCorrupt(WithKey("num_hidden_layers", "2.5"),
                "DIR/config.json: num_hidden_layers: expected a whole number from 1 to 1024, got "
                "2.5");
}

// ---- pooling and modules -----------------------------------------------------------------------

TEST(Pooling, NamesAreParsedBack) {
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLen,
                                Pooling::kWeightedMean, Pooling::kLastToken}) {
    EXPECT_EQ(ParsePooling(Name(pooling)).value(), pooling);
  }
  EXPECT_EQ(Name(Pooling::kMeanSqrtLen), "mean_sqrt_len");
  Result<Pooling> unknown = ParsePooling("sum");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(unknown.error().message(),
            "pooling: expected one of cls, mean, max, mean_sqrt_len, weightedmean, lasttoken, got "
            "'sum'");
}

TEST(B29, ThePoolingFileDecides) {
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kMeanSqrtLen,
                                Pooling::kWeightedMean, Pooling::kLastToken}) {
    TinyModel model;
    model.write_weights = false;
    model.pooling = {pooling};
    EXPECT_EQ(ReadSentence(model.Write()).value().pooling, pooling) << Name(pooling);
  }
}

TEST(B29, TwoModesAtOnceAreRefusedByName) {
  TinyModel model;
  model.write_weights = false;
  model.pooling = {Pooling::kCls, Pooling::kMean};
  ExpectUnsupported(model.Write(),
                    "DIR/1_Pooling/config.json: pooling_mode_mean_tokens 'true' is not supported; "
                    "supported: one mode at a time, and pooling_mode_cls_token is true too");
  ExpectUnsupported(WithFile("1_Pooling/config.json", R"({"pooling_mode": ["cls", "max"]})"),
                    "DIR/1_Pooling/config.json: pooling_mode '[\"cls\",\"max\"]' is not supported; "
                    "supported: one mode");
}

TEST(ReadSentenceConfig, ReadsTheNewFormOfThePoolingFile) {
  const auto pooling = [](std::string_view json) {
    return ReadSentence(WithFile("1_Pooling/config.json", json)).value().pooling;
  };
  EXPECT_EQ(pooling(R"({"embedding_dimension": 32, "pooling_mode": "mean_sqrt_len_tokens"})"),
            Pooling::kMeanSqrtLen);
  EXPECT_EQ(pooling(R"({"pooling_mode": ["lasttoken"], "include_prompt": true})"),
            Pooling::kLastToken);
  EXPECT_EQ(pooling(R"({"word_embedding_dimension": 32})"), Pooling::kMean);  // the default
  EXPECT_EQ(pooling(R"({"pooling_mode": "cls", "pooling_mode_mean_tokens": true})"), Pooling::kCls);
  ExpectUnsupported(WithFile("1_Pooling/config.json", R"({"pooling_mode": "sum"})"),
                    "DIR/1_Pooling/config.json: pooling_mode 'sum' is not supported; supported: "
                    "cls, mean, max, mean_sqrt_len, weightedmean, lasttoken");
  ExpectUnsupported(WithFile("1_Pooling/config.json", R"({"include_prompt": false})"),
                    "DIR/1_Pooling/config.json: include_prompt 'false' is not supported; "
                    "supported: true");
  ExpectCorrupt(WithFile("1_Pooling/config.json", R"({"word_embedding_dimension": 48})"),
                "DIR/1_Pooling/config.json: word_embedding_dimension: expected 32, got 48");
  ExpectCorrupt(WithFile("1_Pooling/config.json", R"({"pooling_mode_cls_token": "yes"})"),
                "DIR/1_Pooling/config.json: pooling_mode_cls_token: expected true or false, got "
                "\"yes\"");
}

TEST(B31, ANormalizeModuleNeedsNoFolder) {
  const std::filesystem::path directory = TinyModel{}.Write();
  ASSERT_FALSE(std::filesystem::exists(directory / "2_Normalize"));
  EXPECT_TRUE(ReadSentence(directory).value().normalize);
  TinyModel raw;
  raw.normalize = false;
  EXPECT_FALSE(ReadSentence(raw.Write()).value().normalize);
}

TEST(B31, APoolingModuleWithoutItsFileIsAnError) {
  TinyModel model;
  model.pooling_folder = false;
  const Fault fault = FaultOf(model.Write());
  EXPECT_EQ(fault.code, ErrorCode::kNotFound);
  EXPECT_EQ(fault.message,
            "DIR/1_Pooling/config.json: no such file; modules.json lists this Pooling module");
}

TEST(ReadSentenceConfig, WithoutModulesAssumesMeanPoolingAndWarns) {
  TinyModel model;
  model.modules_json = false;
  const std::filesystem::path directory = model.Write();
  Result<SentenceConfig> config = ReadSentence(directory);
  ASSERT_TRUE(config.ok()) << config.error().message();
  EXPECT_EQ(config.value().pooling, Pooling::kMean);
  EXPECT_FALSE(config.value().normalize);
  EXPECT_THAT(config.value().warnings,
              testing::ElementsAre((directory / "modules.json").string() +
                                   ": no such file; mean pooling is assumed, without "
                                   "normalisation"));
}

std::string Module(std::string_view type, std::string_view path) {
  return fmt::format(R"({{"path": "{}", "type": "{}"}})", path, type);
}

TEST(ReadSentenceConfig, RefusesOtherModules) {
  const std::string transformer = Module("sentence_transformers.models.Transformer", "");
  const std::string pooling = Module("sentence_transformers.models.Pooling", "1_Pooling");
  ExpectUnsupported(
      WithFile("modules.json",
               fmt::format("[{}, {}, {}]", transformer, pooling,
                           Module("sentence_transformers.models.Dense", "2_Dense"))),
      "DIR/modules.json: module 2 of type 'sentence_transformers.models.Dense' is not supported; "
      "supported: Transformer, Pooling and, optionally, Normalize, in this order");
  ExpectUnsupported(
      WithFile("modules.json", fmt::format("[{}, {}]", pooling, transformer)),
      "DIR/modules.json: module 0 of type 'sentence_transformers.models.Pooling' is not "
      "supported; supported: Transformer, Pooling and, optionally, Normalize, in this order");
  ExpectUnsupported(WithFile("modules.json", fmt::format("[{}]", transformer)),
                    "DIR/modules.json: a list of 1 modules is not supported; supported: "
                    "Transformer, Pooling and, optionally, Normalize, in this order");
  ExpectUnsupported(
      WithFile(
          "modules.json",
          fmt::format("[{}]", Module("sentence_transformers.models.Transformer", "0_Transformer"))),
      "DIR/modules.json: module 0: a Transformer in folder '0_Transformer' is not supported; "
      "supported: in the model's directory itself");
  ExpectUnsupported(
      WithFile("modules.json",
               fmt::format("[{}, {}]", transformer,
                           Module("sentence_transformers.models.Pooling", "../1_Pooling"))),
      "DIR/modules.json: module 1: path '../1_Pooling' is not supported; supported: a folder of "
      "the model's directory");
  ExpectCorrupt(WithFile("modules.json", "{}"),
                "DIR/modules.json: expected an array, got an object");
  ExpectCorrupt(WithFile("modules.json", "[7]"),
                "DIR/modules.json: module 0: expected an object, got 7");
  ExpectCorrupt(WithFile("modules.json", "[{}]"),
                "DIR/modules.json: module 0: type is missing, expected a string");
}

TEST(ReadSentenceConfig, KnowsTheModulesByTheLastPartOfTheirNames) {
  const std::string modules = fmt::format(
      "[{}, {}, {}]", Module("sentence_transformers.base.modules.transformer.Transformer", ""),
      Module("sentence_transformers.sentence_transformer.modules.pooling.Pooling", "1_Pooling"),
      Module("sentence_transformers.sentence_transformer.modules.normalize.Normalize",
             "2_Normalize"));
  Result<SentenceConfig> config = ReadSentence(WithFile("modules.json", modules));
  ASSERT_TRUE(config.ok()) << config.error().message();
  EXPECT_TRUE(config.value().normalize);
}

// ---- limits ------------------------------------------------------------------------------------

// max_sequence of a directory with these files beside 64 positions; "" leaves a file out.
uint32_t Limit(std::string_view sentence_bert_config, std::string_view tokenizer_config) {
  const std::filesystem::path directory =
      WithFile("tokenizer_config.json", tokenizer_config.empty() ? "{}" : tokenizer_config);
  if (!sentence_bert_config.empty()) {
    WriteTestFile(directory / "sentence_bert_config.json", sentence_bert_config);
  }
  Result<SentenceConfig> config = ReadSentence(directory);
  EXPECT_TRUE(config.ok()) << config.error().message();
  return config.ok() ? config.value().max_sequence : 0;
}

TEST(B22, TheSentenceFilesLimitWinsCappedByThePositionTable) {
  EXPECT_EQ(Limit(R"({"max_seq_length": 32})", R"({"model_max_length": 16})"), 32u);
  EXPECT_EQ(Limit(R"({"max_seq_length": 100})", ""), 64u);
  EXPECT_EQ(Limit(R"({"max_seq_length": 1000000000000000019884624838656})", ""), 64u);
  EXPECT_EQ(Limit(R"({"max_seq_length": 64})", ""), 64u);
}

TEST(B28, WithoutTheSentenceFileTheTokenizersLimitCounts) {
  EXPECT_EQ(Limit("", R"({"model_max_length": 16})"), 16u);
  EXPECT_EQ(Limit("{}", R"({"model_max_length": 16})"), 16u);
  EXPECT_EQ(Limit(R"({"max_seq_length": null})", R"({"model_max_length": 16})"), 16u);
  EXPECT_EQ(Limit("", R"({"model_max_length": 1000000000000000019884624838656})"), 64u);
  EXPECT_EQ(Limit("", R"({"a": "1\"23456789012345678901234567890", "model_max_length": 1e30})"),
            64u);
  EXPECT_EQ(Limit("", R"({"model_max_length": null})"), 64u);
  EXPECT_EQ(Limit("", ""), 64u);
}

TEST(ReadSentenceConfig, RefusesImpossibleLimits) {
  ExpectCorrupt(WithFile("sentence_bert_config.json", R"({"max_seq_length": 2})"),
                "DIR: a maximum of 2 tokens (max_seq_length, model_max_length, "
                "max_position_embeddings), expected at least 3, for a word between [CLS] and "
                "[SEP]");
  ExpectCorrupt(WithFile("sentence_bert_config.json", R"({"max_seq_length": 0})"),
                "DIR/sentence_bert_config.json: max_seq_length: expected a positive whole "
                "number, got 0");
  ExpectCorrupt(WithFile("sentence_bert_config.json", R"({"max_seq_length": "256"})"),
                "DIR/sentence_bert_config.json: max_seq_length: expected a number, got "
                "\"256\"");
  ExpectCorrupt(WithFile("tokenizer_config.json", R"({"model_max_length": -1})"),
                "DIR/tokenizer_config.json: model_max_length: expected a positive whole number, "
                "got -1");
  ExpectCorrupt(WithFile("tokenizer_config.json", R"({"model_max_length": 16.5})"),
                "DIR/tokenizer_config.json: model_max_length: expected a positive whole number, "
                "got 16.5");
  ExpectUnsupported(WithFile("sentence_bert_config.json", R"({"query_length": 32})"),
                    "DIR/sentence_bert_config.json: query_length '32' is not supported; "
                    "supported: max_seq_length for every text");
  ExpectUnsupported(
      WithFile("sentence_bert_config.json", R"({"transformer_task": "fill-mask"})"),
      "DIR/sentence_bert_config.json: transformer_task 'fill-mask' is not supported; supported: "
      "feature-extraction");
}

TEST(ReadSentenceConfig, ReadsThatTextsAreLowerCased) {
  EXPECT_FALSE(ReadSentence(TinyModel{}.Write()).value().lowercase);
  const auto with = WithFile("sentence_bert_config.json", R"({"do_lower_case": true})");
  EXPECT_TRUE(ReadSentence(with).value().lowercase);
}

// ---- prompts -----------------------------------------------------------------------------------

TEST(B35, PromptsAreReadAsWritten) {
  const auto with = [](std::string_view json) {
    return WithFile("config_sentence_transformers.json", json);
  };
  Result<SentenceConfig> config = ReadSentence(with(
      R"({"__version__": {}, "prompts": {"query": "query: ", "passage": " passage:\t", "document": null},
          "default_prompt_name": "query", "similarity_fn_name": "cosine"})"));
  ASSERT_TRUE(config.ok()) << config.error().message();
  const std::map<std::string, std::string, std::less<>> expected = {
      {"query", "query: "}, {"passage", " passage:\t"}, {"document", ""}};
  EXPECT_EQ(config.value().prompts, expected);
  EXPECT_EQ(config.value().default_prompt_name, "query");

  Result<SentenceConfig> none = ReadSentence(with(R"({"default_prompt_name": null})"));
  ASSERT_TRUE(none.ok()) << none.error().message();
  EXPECT_TRUE(none.value().prompts.empty());
  EXPECT_FALSE(none.value().default_prompt_name.has_value());

  ExpectCorrupt(with(R"({"default_prompt_name": "query"})"),
                "DIR/config_sentence_transformers.json: default_prompt_name: expected a name of "
                "prompts, got \"query\"");
  ExpectCorrupt(with(R"({"prompts": {"query": 7}})"),
                "DIR/config_sentence_transformers.json: prompts[\"query\"]: expected a string, got "
                "7");
  ExpectCorrupt(with(R"({"prompts": []})"),
                "DIR/config_sentence_transformers.json: prompts: expected an object, got []");
  ExpectUnsupported(with(R"({"model_type": "SparseEncoder"})"),
                    "DIR/config_sentence_transformers.json: model_type 'SparseEncoder' is not "
                    "supported; supported: SentenceTransformer");
}

}  // namespace
}  // namespace sprat
