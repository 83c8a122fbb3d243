#include "model/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json_numbers.h"
#include "base/mapped_file.h"

namespace sprat {
namespace {

using simdjson::dom::element_type;

constexpr size_t kMaxFileBytes{16 << 20};
constexpr size_t kMaxDepth{64};

// The first key that occurs twice in one object of `value`, if any. Recursion ends at kMaxDepth.
std::optional<std::string> FindDuplicateKey(simdjson::dom::element value) {
  if (value.is_array()) {
    for (const simdjson::dom::element item : simdjson::dom::array(value)) {
      if (item.is_array() || item.is_object()) {
        if (auto key = FindDuplicateKey(item)) return key;
      }
    }
    return std::nullopt;
  }
  if (!value.is_object()) return std::nullopt;
  std::vector<std::string_view> keys;
  for (const simdjson::dom::key_value_pair field : simdjson::dom::object(value)) {
    keys.push_back(field.key);
    if (field.value.is_array() || field.value.is_object()) {
      if (auto key = FindDuplicateKey(field.value)) return key;
    }
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return std::nullopt;
  return std::string(*twice);
}

simdjson::error_code ParseInto(std::string_view text, simdjson::dom::parser& parser,
                               simdjson::dom::element& root) {
  const simdjson::error_code allocated = parser.allocate(text.size(), kMaxDepth);
  if (allocated != simdjson::SUCCESS) return allocated;
  return parser.parse(simdjson::padded_string(text)).get(root);
}

}  // namespace

Result<JsonDocument> JsonDocument::Read(const std::filesystem::path& path) {
  Result<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok()) return std::move(text.error());
  return Parse(path.string(), std::as_bytes(std::span(text.value())));
}

Result<JsonDocument> JsonDocument::Parse(std::string origin, std::span<const std::byte> text) {
  JsonDocument document;
  document.origin_ = std::move(origin);
  if (text.empty()) return Error(ErrorCode::kCorrupt, document.origin_ + ": empty, expected JSON");
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  const std::string_view characters(reinterpret_cast<const char*>(text.data()), text.size());
  simdjson::error_code failed = ParseInto(characters, *document.parser_, document.root_);
  if (failed != simdjson::SUCCESS) {
    const std::optional<std::string> readable = WithLargeNumbersAsReals(characters);
    if (readable) failed = ParseInto(*readable, *document.parser_, document.root_);
  }
  if (failed != simdjson::SUCCESS) {
    return Error(ErrorCode::kCorrupt, fmt::format("{}: not valid JSON: {}", document.origin_,
                                                  simdjson::error_message(failed)));
  }
  if (const auto key = FindDuplicateKey(document.root_)) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: duplicate key \"{}\"", document.origin_, *key));
  }
  return document;
}

Result<simdjson::dom::object> JsonDocument::Object() const {
  if (!root_.is_object()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: expected an object, got {}", origin_, KindName(root_)));
  }
  return simdjson::dom::object(root_);
}

Result<simdjson::dom::array> JsonDocument::Array() const {
  if (!root_.is_array()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{}: expected an array, got {}", origin_, KindName(root_)));
  }
  return simdjson::dom::array(root_);
}

std::string_view KindName(simdjson::dom::element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "true or false";
    case element_type::NULL_VALUE:
      return "null";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
  }
  return "something else";
}

std::string Shown(simdjson::dom::element value) {
  constexpr size_t kShownBytes{60};
  std::string text = simdjson::minify(value);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

std::optional<simdjson::dom::element> JsonFields::Find(std::string_view key) const {
  simdjson::dom::element value;
  if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

Result<std::optional<bool>> JsonFields::Bool(std::string_view key) const {
  const auto value = Find(key);
  if (!value) return std::optional<bool>();
  if (!value->is_bool()) return Wrong(key, "true or false", *value);
  return std::optional<bool>(bool(*value));
}

Result<std::optional<std::string>> JsonFields::String(std::string_view key) const {
  const auto value = Find(key);
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return Wrong(key, "a string", *value);
  return std::optional<std::string>(std::string_view(*value));
}

Result<std::optional<double>> JsonFields::Number(std::string_view key) const {
  const auto value = Find(key);
  if (!value) return std::optional<double>();
  double number = 0;
  if (value->get(number) != simdjson::SUCCESS) return Wrong(key, "a number", *value);
  return std::optional<double>(number);
}

Result<std::optional<uint64_t>> JsonFields::Integer(std::string_view key, Range range) const {
  const auto value = Find(key);
  if (!value) return std::optional<uint64_t>();
  uint64_t number = 0;
  if (value->get(number) != simdjson::SUCCESS || number < range.least || number > range.most) {
    const std::string expected =
        range.least == range.most
            ? std::to_string(range.least)
            : fmt::format("a whole number from {} to {}", range.least, range.most);
    return Wrong(key, expected, *value);
  }
  return std::optional<uint64_t>(number);
}

Error JsonFields::Wrong(std::string_view key, std::string_view expected,
                        simdjson::dom::element got) const {
  return Error(ErrorCode::kCorrupt,
               fmt::format("{}: {}: expected {}, got {}", origin_, key, expected, Shown(got)));
}

Error JsonFields::Missing(std::string_view key, std::string_view expected) const {
  return Error(ErrorCode::kCorrupt,
               fmt::format("{}: {} is missing, expected {}", origin_, key, expected));
}

Error JsonFields::Unsupported(std::string_view key, std::string_view value,
                              std::string_view supported) const {
  return Error(ErrorCode::kUnsupported, fmt::format("{}: {} '{}' is not supported; supported: {}",
                                                    origin_, key, value, supported));
}

}  // namespace sprat
