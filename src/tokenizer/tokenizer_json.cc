#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/mapped_file.h"
#include "tokenizer/component_readers.h"
#include "tokenizer/json.h"
#include "tokenizer/parts.h"

namespace sprat {
namespace {

constexpr size_t kMaxFileBytes{size_t{512} << 20};

Result<std::vector<AddedToken>> ReadAddedTokens(const JsonValue& root) {
  std::vector<AddedToken> tokens;
  const std::optional<JsonValue> list = root.Find("added_tokens");
  if (!list) return tokens;
  Result<std::vector<JsonValue>> items = list->Array();
  if (!items.ok()) return std::move(items.error());
  for (const JsonValue& item : items.value()) {
    const Result<std::string_view> content = item.String("content");
    if (!content.ok()) return content.error();
    AddedToken token;
    token.content = content.value();
    const std::pair<std::string_view, bool*> flags[] = {{"single_word", &token.single_word},
                                                        {"lstrip", &token.lstrip},
                                                        {"rstrip", &token.rstrip},
                                                        {"normalized", &token.normalized},
                                                        {"special", &token.special}};
    for (const auto& [key, flag] : flags) {
      const Result<bool> value = item.Bool(key);
      if (!value.ok()) return value.error();
      *flag = value.value();
    }
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The ids of a special token that a template names.
Result<void> AppendTemplateToken(const JsonValue& processor, const JsonValue& piece,
                                 std::vector<uint32_t>& ids) {
  const Result<std::string_view> name = piece.String("id");
  if (!name.ok()) return name.error();
  const Result<JsonValue> map = processor.Get("special_tokens");
  if (!map.ok()) return map.error();
  const Result<JsonValue> token = map.value().Get(name.value());
  if (!token.ok()) return token.error();
  const Result<JsonValue> list = token.value().Get("ids");
  if (!list.ok()) return list.error();
  const Result<std::vector<JsonValue>> items = list.value().Array();
  if (!items.ok()) return items.error();
  for (const JsonValue& item : items.value()) {
    const Result<uint32_t> id = item.Uint();
    if (!id.ok()) return id.error();
    ids.push_back(id.value());
  }
  return {};
}

// TemplateProcessing: `single` lists special tokens around exactly one sequence.
Result<void> ReadTemplate(const JsonValue& processor, TokenizerParts& parts) {
  const Result<JsonValue> single = processor.Get("single");
  if (!single.ok()) return single.error();
  const Result<std::vector<JsonValue>> pieces = single.value().Array();
  if (!pieces.ok()) return pieces.error();
  size_t sequences = 0;
  for (const JsonValue& piece : pieces.value()) {
    if (piece.Find("Sequence")) {
      ++sequences;
    } else {
      const Result<JsonValue> token = piece.Get("SpecialToken");
      if (!token.ok()) return token.error();
      Result<void> appended = AppendTemplateToken(processor, token.value(),
                                                  sequences == 0 ? parts.prefix : parts.suffix);
      if (!appended.ok()) return appended;
    }
  }
  if (sequences == 1) return {};
  return Error(ErrorCode::kUnsupported, fmt::format("{} must name one Sequence, found {}",
                                                    single.value().place(), sequences));
}

// BertProcessing and RobertaProcessing: "cls": [token, id], "sep": [token, id].
Result<uint32_t> ReadTokenAndId(const JsonValue& processor, std::string_view key) {
  const Result<JsonValue> pair = processor.Get(key);
  if (!pair.ok()) return pair.error();
  const Result<std::vector<JsonValue>> items = pair.value().Array();
  if (!items.ok() || items.value().size() != 2) return pair.value().Expected("[token, id]");
  return items.value()[1].Uint();
}

Result<void> ReadPostProcessor(const JsonValue& json, TokenizerParts& parts) {
  const Result<std::string_view> type = json.Type();
  if (!type.ok()) return type.error();
  if (type.value() == "TemplateProcessing") return ReadTemplate(json, parts);
  if (type.value() == "ByteLevel") return {};  // it only moves offsets
  if (type.value() == "Sequence") {
    const Result<std::vector<JsonValue>> processors = json.List("processors");
    if (!processors.ok()) return processors.error();
    for (const JsonValue& processor : processors.value()) {
      const std::vector<uint32_t> prefix = std::exchange(parts.prefix, {});
      const std::vector<uint32_t> suffix = std::exchange(parts.suffix, {});
      Result<void> read = ReadPostProcessor(processor, parts);
      if (!read.ok()) return read;
      parts.prefix.insert(parts.prefix.end(), prefix.begin(), prefix.end());
      parts.suffix.insert(parts.suffix.begin(), suffix.begin(), suffix.end());
    }
    return {};
  }
  if (type.value() != "BertProcessing" && type.value() != "RobertaProcessing") {
    return json.UnsupportedType(
        type.value(), "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence");
  }
  const Result<uint32_t> cls = ReadTokenAndId(json, "cls");
  if (!cls.ok()) return cls.error();
  const Result<uint32_t> sep = ReadTokenAndId(json, "sep");
  if (!sep.ok()) return sep.error();
  parts.prefix = {cls.value()};
  parts.suffix = {sep.value()};
  return {};
}

Result<std::optional<FileTruncation>> ReadTruncation(const JsonValue& root) {
  const std::optional<JsonValue> json = root.Find("truncation");
  if (!json) return std::optional<FileTruncation>();
  const Result<uint32_t> max_length = json->Uint("max_length");
  if (!max_length.ok()) return max_length.error();
  const Result<std::string_view> direction = json->StringOr("direction", "Right");
  if (!direction.ok()) return direction.error();
  return std::optional(FileTruncation{max_length.value(), direction.value() == "Left"});
}

Result<TokenizerParts> ReadParts(const JsonValue& root) {
  if (!root.IsObject()) return Error(ErrorCode::kCorrupt, "the file must be a JSON object");
  Result<std::vector<AddedToken>> added = ReadAddedTokens(root);
  if (!added.ok()) return std::move(added.error());
  Result<Normalizer> normalizer = ReadNormalizer(root);
  if (!normalizer.ok()) return std::move(normalizer.error());
  Result<PreTokenizer> pre_tokenizer = ReadPreTokenizer(root);
  if (!pre_tokenizer.ok()) return std::move(pre_tokenizer.error());
  Result<ModelAndEntries> read = ReadModel(root);
  if (!read.ok()) return std::move(read.error());
  const Result<std::optional<FileTruncation>> truncation = ReadTruncation(root);
  if (!truncation.ok()) return truncation.error();
  auto& [model, entries, size] = read.value();
  AssignIds(TrieOf(model), size, added.value(), entries);
  TokenizerParts parts{.added_tokens = std::move(added).value(),
                       .normalizer = std::move(normalizer).value(),
                       .pre_tokenizer = std::move(pre_tokenizer).value(),
                       .model = std::move(model),
                       .vocabulary = Vocabulary(entries),
                       .prefix = {},
                       .suffix = {},
                       .truncation = truncation.value(),
                       .decoder = ReadDecoder(root)};
  if (const auto processor = root.Find("post_processor")) {
    Result<void> processed = ReadPostProcessor(*processor, parts);
    if (!processed.ok()) return std::move(processed.error());
  }
  return parts;
}

}  // namespace

Result<TokenizerParts> ReadTokenizerJson(const std::filesystem::path& file) {
  Result<MappedFile> mapped = MappedFile::Open(file);
  if (!mapped.ok()) return std::move(mapped.error());
  const std::span<const std::byte> bytes = mapped.value().bytes();
  if (bytes.size() > kMaxFileBytes) {
    return Error(ErrorCode::kCorrupt, fmt::format("{}: {} bytes, expected at most {}",
                                                  file.string(), bytes.size(), kMaxFileBytes));
  }
  // A copy, because the parser reads past the end; what it finds there does not matter.
  const auto text =
      std::make_unique_for_overwrite<char[]>(bytes.size() + simdjson::SIMDJSON_PADDING);
  if (!bytes.empty()) std::memcpy(text.get(), bytes.data(), bytes.size());
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::error_code failure = parser.parse(text.get(), bytes.size(), false).get(root);
  if (failure != simdjson::SUCCESS) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: not JSON: {}", file.string(), simdjson::error_message(failure)));
  }
  Result<TokenizerParts> parts = ReadParts(JsonValue(root, ""));
  if (!parts.ok()) return std::move(parts.error()).In(file.string());
  return parts;
}

}  // namespace sprat
