#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/json_numbers.h"
#include "base/mapped_file.h"
#include "tokenizer/json.h"
#include "tokenizer/parts.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr size_t kMaxVocabularyBytes{size_t{256} << 20};
constexpr size_t kMaxConfigBytes{size_t{64} << 20};

// What tokenizer_config.json says, with the defaults of BertTokenizer.
struct BertTokenizerConfig {
  bool do_lower_case = true;
  bool tokenize_chinese_chars = true;
  std::optional<bool> strip_accents;
  std::string unknown = "[UNK]";
  std::string separator = "[SEP]";
  std::string padding = "[PAD]";
  std::string classification = "[CLS]";
  std::string mask = "[MASK]";
};

std::string_view WithoutTrailingSpace(std::string_view line) {
  while (!line.empty()) {
    const size_t last = PreviousCharacter(line, line.size());
    if ((RecordOf(DecodeUtf8(line.data() + last).code_point).flags & kWhitespace) == 0) break;
    line = line.substr(0, last);
  }
  return line;
}

Result<std::vector<DoubleArray::Entry>> SplitLines(std::string_view text) {
  if (const auto invalid = FindInvalidUtf8(text)) {
    return Error(ErrorCode::kCorrupt, fmt::format("not UTF-8 at byte {}", *invalid));
  }
  std::vector<DoubleArray::Entry> entries;
  uint32_t id = 0;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    const std::string_view token = WithoutTrailingSpace(text.substr(0, length));
    if (!token.empty()) entries.push_back({token, id});  // an empty line can never be matched
    ++id;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return entries;
}

// A special token is written as a string or as an object with `content`.
Result<void> ReadToken(const JsonValue& config, std::string_view key, std::string& token) {
  const auto json = config.Find(key);
  if (!json) return {};
  const Result<std::string_view> text = json->IsObject() ? json->String("content") : json->String();
  if (!text.ok()) return text.error();
  token = text.value();
  return {};
}

Result<BertTokenizerConfig> ReadConfig(const JsonValue& json) {
  BertTokenizerConfig config;
  bool strip_accents = false;
  const std::pair<std::string_view, bool*> flags[] = {
      {"do_lower_case", &config.do_lower_case},
      {"tokenize_chinese_chars", &config.tokenize_chinese_chars},
      {"strip_accents", &strip_accents}};
  for (const auto& [key, flag] : flags) {
    const auto member = json.Find(key);
    if (!member) continue;
    const Result<bool> value = member->Bool();
    if (!value.ok()) return value.error();
    *flag = value.value();
  }
  if (json.Find("strip_accents")) config.strip_accents = strip_accents;
  const std::pair<std::string_view, std::string*> tokens[] = {{"unk_token", &config.unknown},
                                                              {"sep_token", &config.separator},
                                                              {"pad_token", &config.padding},
                                                              {"cls_token", &config.classification},
                                                              {"mask_token", &config.mask}};
  for (const auto& [key, token] : tokens) {
    Result<void> read = ReadToken(json, key, *token);
    if (!read.ok()) return std::move(read.error());
  }
  return config;
}

Result<BertTokenizerConfig> ReadConfigFile(const std::filesystem::path& file) {
  const Result<std::string> text = ReadFile(file, kMaxConfigBytes);
  if (!text.ok()) {
    if (text.error().code() == ErrorCode::kNotFound) return BertTokenizerConfig();
    return text.error();
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::error_code failure = parser.parse(text.value()).get(root);
  if (failure != simdjson::SUCCESS) {
    const std::optional<std::string> readable = WithLargeNumbersAsReals(text.value());
    if (readable) failure = parser.parse(*readable).get(root);
  }
  if (failure != simdjson::SUCCESS) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: not JSON: {}", file.string(), simdjson::error_message(failure)));
  }
  Result<BertTokenizerConfig> config = ReadConfig(JsonValue(root, ""));
  if (!config.ok()) return std::move(config.error()).In(file.string());
  return config;
}

Result<TokenizerParts> MakeParts(std::string_view vocabulary, const BertTokenizerConfig& config) {
  Result<std::vector<DoubleArray::Entry>> entries = SplitLines(vocabulary);
  if (!entries.ok()) return std::move(entries.error());
  Result<WordPiece> model = WordPiece::Build(entries.value(), {.unknown_token = config.unknown});
  if (!model.ok()) return std::move(model.error());
  const DoubleArray& trie = model.value().trie();
  std::vector<AddedToken> added;
  for (const std::string* token : {&config.padding, &config.unknown, &config.classification,
                                   &config.separator, &config.mask}) {
    const std::optional<uint32_t> id = trie.Find(*token);
    if (id) added.push_back({.content = *token, .id = *id, .special = true});
  }
  const std::optional<uint32_t> cls = trie.Find(config.classification);
  const std::optional<uint32_t> sep = trie.Find(config.separator);
  if (!cls || !sep) {
    return Error(ErrorCode::kCorrupt, fmt::format("the special token '{}' is not in the vocabulary",
                                                  cls ? config.separator : config.classification));
  }
  return TokenizerParts{.added_tokens = std::move(added),
                        .normalizer = Normalizer({BertNormalizer(
                            {.clean_text = true,
                             .handle_chinese_chars = config.tokenize_chinese_chars,
                             .strip_accents = config.strip_accents.value_or(config.do_lower_case),
                             .lowercase = config.do_lower_case})}),
                        .pre_tokenizer = PreTokenizer(BertPreTokenizerSteps()),
                        .model = std::move(model).value(),
                        .vocabulary = Vocabulary(entries.value()),
                        .prefix = {*cls},
                        .suffix = {*sep},
                        .decoder = Decoder({WordPieceDecoder{}})};
}

}  // namespace

Result<TokenizerParts> ReadVocabTxt(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "vocab.txt";
  const Result<std::string> text = ReadFile(file, kMaxVocabularyBytes);
  if (!text.ok()) return text.error();
  const Result<BertTokenizerConfig> config = ReadConfigFile(directory / "tokenizer_config.json");
  if (!config.ok()) return config.error();
  Result<TokenizerParts> parts = MakeParts(text.value(), config.value());
  if (!parts.ok()) return std::move(parts.error()).In(file.string());
  return parts;
}

}  // namespace sprat
