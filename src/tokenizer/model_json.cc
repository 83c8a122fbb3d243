#include <fmt/format.h>

#include <optional>
#include <utility>

#include "tokenizer/component_readers.h"

namespace sprat {
namespace {

using Entries = std::vector<DoubleArray::Entry>;

// "vocab": {token: id, ...}.
Result<Entries> ReadVocabularyObject(const JsonValue& model) {
  const Result<JsonValue> json = model.Get("vocab");
  if (!json.ok()) return json.error();
  simdjson::dom::object object;
  if (json.value().element().get(object) != simdjson::SUCCESS) {
    return json.value().Expected("an object from token to id");
  }
  Entries entries;
  for (const auto& [token, id_element] : object) {
    uint64_t id;
    if (id_element.get(id) != simdjson::SUCCESS || id >= DoubleArray::kMaxValues) {
      return JsonValue(id_element, fmt::format("model.vocab['{}']", token))
          .Expected("an id from 0 to 8388607");
    }
    // An empty token is never matched.
    if (!token.empty()) entries.push_back({token, static_cast<uint32_t>(id)});
  }
  return entries;
}

template <typename Model>
Result<ModelAndEntries> Finish(Result<Model> model, Entries entries, size_t size) {
  if (!model.ok()) return std::move(model.error()).In("model.vocab");
  return ModelAndEntries{std::move(model).value(), std::move(entries), size};
}

Result<ModelAndEntries> ReadWordPiece(const JsonValue& json) {
  const Result<std::string_view> unknown = json.String("unk_token");
  if (!unknown.ok()) return unknown.error();
  const Result<std::string_view> prefix = json.String("continuing_subword_prefix");
  if (!prefix.ok()) return prefix.error();
  const Result<uint32_t> max_characters = json.Uint("max_input_chars_per_word");
  if (!max_characters.ok()) return max_characters.error();
  Result<Entries> entries = ReadVocabularyObject(json);
  if (!entries.ok()) return std::move(entries.error());
  Result<WordPiece> model =
      WordPiece::Build(entries.value(), {.unknown_token = std::string(unknown.value()),
                                         .continuing_prefix = std::string(prefix.value()),
                                         .max_characters = max_characters.value()});
  const size_t size = entries.value().size();
  return Finish(std::move(model), std::move(entries).value(), size);
}

// "vocab": [[piece, score], ...]; the id is the index.
Result<void> ReadScoredPieces(const JsonValue& json, Entries& entries,
                              std::vector<double>& scores) {
  simdjson::dom::array array;
  if (json.element().get(array) != simdjson::SUCCESS)
    return json.Expected("an array of [piece, score]");
  entries.reserve(array.size());
  scores.reserve(array.size());
  for (const simdjson::dom::element item : array) {
    std::string_view piece;
    double score;
    if (item.at(0).get(piece) != simdjson::SUCCESS || item.at(1).get(score) != simdjson::SUCCESS) {
      return JsonValue(item, fmt::format("{}[{}]", json.place(), scores.size()))
          .Expected("[piece, score]");
    }
    if (!piece.empty()) entries.push_back({piece, static_cast<uint32_t>(scores.size())});
    scores.push_back(score);
  }
  return {};
}

Result<ModelAndEntries> ReadUnigram(const JsonValue& json) {
  const Result<JsonValue> vocab = json.Get("vocab");
  if (!vocab.ok()) return vocab.error();
  const Result<uint32_t> unknown_id = json.Uint("unk_id");
  if (!unknown_id.ok()) return unknown_id.error();
  const Result<bool> byte_fallback = json.BoolOr("byte_fallback", false);
  if (!byte_fallback.ok()) return byte_fallback.error();
  Entries entries;
  std::vector<double> scores;
  Result<void> read = ReadScoredPieces(vocab.value(), entries, scores);
  if (!read.ok()) return std::move(read.error());
  const size_t size = scores.size();
  Result<Unigram> model =
      Unigram::Build(entries, std::move(scores), unknown_id.value(), byte_fallback.value());
  return Finish(std::move(model), std::move(entries), size);
}

// A merge is ["left", "right"] or "left right".
Result<std::vector<std::pair<std::string_view, std::string_view>>> ReadMerges(
    const JsonValue& json) {
  simdjson::dom::array array;
  if (json.element().get(array) != simdjson::SUCCESS) return json.Expected("an array of merges");
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  for (const simdjson::dom::element item : array) {
    std::string_view left;
    std::string_view right;
    if (item.get(left) == simdjson::SUCCESS) {
      if (left.starts_with("#version")) continue;
      const size_t space = left.find(' ');
      if (space != std::string_view::npos && left.find(' ', space + 1) == std::string_view::npos) {
        merges.emplace_back(left.substr(0, space), left.substr(space + 1));
        continue;
      }
    } else if (item.at(0).get(left) == simdjson::SUCCESS &&
               item.at(1).get(right) == simdjson::SUCCESS) {
      merges.emplace_back(left, right);
      continue;
    }
    return JsonValue(item, fmt::format("{}[{}]", json.place(), merges.size()))
        .Expected("[left, right] or \"left right\"");
  }
  return merges;
}

Result<BpeOptions> ReadBpeOptions(const JsonValue& json) {
  if (const auto dropout = json.Find("dropout")) {
    const Result<double> value = dropout->Number();
    if (!value.ok()) return value.error();
    if (value.value() != 0) {
      return Error(ErrorCode::kUnsupported, "model.dropout must be null or 0: ids would be random");
    }
  }
  BpeOptions options;
  const std::pair<std::string_view, bool*> flags[] = {{"fuse_unk", &options.fuse_unknown},
                                                      {"byte_fallback", &options.byte_fallback},
                                                      {"ignore_merges", &options.ignore_merges}};
  for (const auto& [key, flag] : flags) {
    const Result<bool> value = json.BoolOr(key, false);
    if (!value.ok()) return value.error();
    *flag = value.value();
  }
  const std::pair<std::string_view, std::string*> texts[] = {
      {"continuing_subword_prefix", &options.continuing_prefix},
      {"end_of_word_suffix", &options.end_of_word_suffix}};
  for (const auto& [key, text] : texts) {
    const Result<std::string_view> value = json.StringOr(key, "");
    if (!value.ok()) return value.error();
    *text = value.value();
  }
  if (const auto unknown = json.Find("unk_token")) {
    const Result<std::string_view> value = unknown->String();
    if (!value.ok()) return value.error();
    options.unknown_token = std::string(value.value());
  }
  return options;
}

Result<ModelAndEntries> ReadBpe(const JsonValue& json) {
  const Result<BpeOptions> options = ReadBpeOptions(json);
  if (!options.ok()) return options.error();
  Result<Entries> entries = ReadVocabularyObject(json);
  if (!entries.ok()) return std::move(entries.error());
  const Result<JsonValue> list = json.Get("merges");
  if (!list.ok()) return list.error();
  const auto merges = ReadMerges(list.value());
  if (!merges.ok()) return merges.error();
  Result<Bpe> model = Bpe::Build(entries.value(), merges.value(), options.value());
  const size_t size = entries.value().size();
  return Finish(std::move(model), std::move(entries).value(), size);
}

// Files of the first versions do not say which model they have.
std::string_view GuessType(const JsonValue& json) {
  if (json.Find("merges")) return "BPE";
  return json.Find("unk_id") ? "Unigram" : "WordPiece";
}

}  // namespace

Result<ModelAndEntries> ReadModel(const JsonValue& root) {
  const Result<JsonValue> found = root.Get("model");
  if (!found.ok()) return found.error();
  const JsonValue& json = found.value();
  const Result<std::string_view> type = json.StringOr("type", GuessType(json));
  if (!type.ok()) return type.error();
  if (type.value() == "WordPiece") return ReadWordPiece(json);
  if (type.value() == "Unigram") return ReadUnigram(json);
  if (type.value() == "BPE") return ReadBpe(json);
  return json.UnsupportedType(type.value(), "BPE, Unigram, WordPiece");
}

}  // namespace sprat
