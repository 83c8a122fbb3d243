#include "tokenizer/json.h"

#include <fmt/format.h>

#include <utility>

namespace sprat {
namespace {

constexpr size_t kExcerptBytes{60};

}  // namespace

std::string Excerpt(simdjson::dom::element element) {
  if (element.is_array()) return "an array";
  if (element.is_object()) return "an object";
  std::string text = simdjson::minify(element);
  if (text.size() > kExcerptBytes) {
    text.resize(kExcerptBytes);
    text += "...";
  }
  return text;
}

Error JsonValue::Expected(std::string_view expected) const {
  return Error(ErrorCode::kCorrupt,
               fmt::format("{} must be {}, found {}", place_, expected, Excerpt(element_)));
}

Error JsonValue::UnsupportedType(std::string_view type, std::string_view supported) const {
  return Error(ErrorCode::kUnsupported, fmt::format("{}: type '{}' is not supported; supported: {}",
                                                    place_, type, supported));
}

std::optional<JsonValue> JsonValue::Find(std::string_view key) const {
  simdjson::dom::element member;
  if (element_[key].get(member) != simdjson::SUCCESS || member.is_null()) return std::nullopt;
  return JsonValue(member, place_.empty() ? std::string(key) : fmt::format("{}.{}", place_, key));
}

Result<JsonValue> JsonValue::Get(std::string_view key) const {
  if (!element_.is_object()) return Expected("an object");
  std::optional<JsonValue> member = Find(key);
  if (member) return *std::move(member);
  return Error(ErrorCode::kCorrupt,
               fmt::format("{}{}{} is missing", place_, place_.empty() ? "" : ".", key));
}

Result<bool> JsonValue::Bool() const {
  bool value;
  if (element_.get(value) != simdjson::SUCCESS) return Expected("true or false");
  return value;
}

Result<uint32_t> JsonValue::Uint() const {
  uint64_t value;
  if (element_.get(value) != simdjson::SUCCESS || value > UINT32_MAX) {
    return Expected("an integer from 0 to 4294967295");
  }
  return static_cast<uint32_t>(value);
}

Result<double> JsonValue::Number() const {
  double value;
  if (element_.get(value) != simdjson::SUCCESS) return Expected("a number");
  return value;
}

Result<std::string_view> JsonValue::String() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) return Expected("a string");
  return value;
}

Result<std::vector<JsonValue>> JsonValue::Array() const {
  simdjson::dom::array array;
  if (element_.get(array) != simdjson::SUCCESS) return Expected("an array");
  std::vector<JsonValue> values;
  for (const simdjson::dom::element element : array) {
    values.emplace_back(element, fmt::format("{}[{}]", place_, values.size()));
  }
  return values;
}

Result<std::string_view> JsonValue::Type() const { return String("type"); }

Result<bool> JsonValue::Bool(std::string_view key) const {
  const Result<JsonValue> member = Get(key);
  if (!member.ok()) return member.error();
  return member.value().Bool();
}

Result<uint32_t> JsonValue::Uint(std::string_view key) const {
  const Result<JsonValue> member = Get(key);
  if (!member.ok()) return member.error();
  return member.value().Uint();
}

Result<std::string_view> JsonValue::String(std::string_view key) const {
  const Result<JsonValue> member = Get(key);
  if (!member.ok()) return member.error();
  return member.value().String();
}

Result<std::vector<JsonValue>> JsonValue::List(std::string_view key) const {
  const Result<JsonValue> member = Get(key);
  if (!member.ok()) return member.error();
  return member.value().Array();
}

Result<bool> JsonValue::BoolOr(std::string_view key, bool otherwise) const {
  const std::optional<JsonValue> member = Find(key);
  return member ? member->Bool() : Result<bool>(otherwise);
}

Result<std::string_view> JsonValue::StringOr(std::string_view key,
                                             std::string_view otherwise) const {
  const std::optional<JsonValue> member = Find(key);
  return member ? member->String() : Result<std::string_view>(otherwise);
}

}  // namespace sprat
