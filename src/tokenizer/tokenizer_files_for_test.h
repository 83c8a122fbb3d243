// Writes small tokenizer directories for tests.
#ifndef SPRAT_TOKENIZER_TOKENIZER_FILES_FOR_TEST_H_
#define SPRAT_TOKENIZER_TOKENIZER_FILES_FOR_TEST_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace sprat {

// An empty directory that goes away with this object.
class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "sprat-tokenizer-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() { std::filesystem::remove_all(path_); }

  const TestDirectory& Write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string BertVocabTxt() {
  std::stringstream text;
  text << std::ifstream(SPRAT_TESTDATA "/bert/vocab.txt").rdbuf();
  return text.str();
}

// The normalizer of a tokenizer.json.
inline std::string BertNormalizerJson(std::string_view lowercase, std::string_view strip_accents) {
  return R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":)" +
         std::string(strip_accents) + R"(,"lowercase":)" + std::string(lowercase) + "}";
}

// The tokenizer.json that belongs to a vocab.txt, as published for all-MiniLM-L6-v2.
inline std::string BertTokenizerJson(const std::string& vocab_txt, const std::string& normalizer) {
  std::string json =
      R"({"version":"1.0","truncation":{"max_length":128},"padding":null,"added_tokens":[)";
  const std::pair<const char*, int> specials[] = {
      {"[PAD]", 0}, {"[UNK]", 100}, {"[CLS]", 101}, {"[SEP]", 102}, {"[MASK]", 103}};
  for (const auto& [content, id] : specials) {
    json += (id == 0 ? "" : ",") + std::string(R"({"id":)") + std::to_string(id) +
            R"(,"special":true,"content":")" + content +
            R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false})";
  }
  json += R"(],"normalizer":)" + normalizer + R"(,"pre_tokenizer":{"type":"BertPreTokenizer"},
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],"pair":[],
      "special_tokens":{"[CLS]":{"id":"[CLS]","ids":[101],"tokens":["[CLS]"]},
                        "[SEP]":{"id":"[SEP]","ids":[102],"tokens":["[SEP]"]}}},
    "decoder":null,"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
      "max_input_chars_per_word":100,"vocab":{)";
  std::istringstream lines(vocab_txt);
  int id = 0;
  for (std::string line; std::getline(lines, line); ++id) {
    json += id == 0 ? "\"" : ",\"";
    for (const char c : line) {
      if (c == '"' || c == '\\') json += '\\';
      json += c;
    }
    json += "\":" + std::to_string(id);
  }
  return json + "}}}";
}

inline Tokenizer OpenOrDie(const std::filesystem::path& directory) {
  Result<Tokenizer> tokenizer = Tokenizer::Open(directory);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.error().message();
    std::abort();
  }
  return std::move(tokenizer).value();
}

inline std::vector<uint32_t> Ids(const Tokenizer& tokenizer, std::string_view text,
                                 const TokenizeOptions& options = {}) {
  std::vector<uint32_t> ids;
  const Result<TokenizedLength> made = tokenizer.Tokenize(text, options, ids);
  EXPECT_TRUE(made.ok());
  return ids;
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_TOKENIZER_FILES_FOR_TEST_H_
