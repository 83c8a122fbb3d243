// The JSON files of a model directory, read strictly.
#ifndef SPRAT_MODEL_JSON_H_
#define SPRAT_MODEL_JSON_H_

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sprat/result.h"

namespace sprat {

// One JSON text (RFC 8259), parsed: valid UTF-8, at most 64 levels deep, no key twice in an object.
// Elements are views, valid as long as this object. Movable.
class JsonDocument {
 public:
  // Reads a file of at most 16 MB. Errors: as ReadFile; kCorrupt, naming the file, for text that is
  // not such JSON.
  static Result<JsonDocument> Read(const std::filesystem::path& path);

  // Parses `text`, which is copied. `origin` is what messages call it. Whole numbers that do not
  // fit into 64 bits become doubles. Memory: at most kParseBytesPerByte bytes for each byte of the
  // text.
  static Result<JsonDocument> Parse(std::string origin, std::span<const std::byte> text);

  static constexpr size_t kParseBytesPerByte{20};

  simdjson::dom::element root() const { return root_; }
  const std::string& origin() const { return origin_; }

  // The root as an object; kCorrupt naming what it is instead.
  Result<simdjson::dom::object> Object() const;
  Result<simdjson::dom::array> Array() const;

 private:
  std::string origin_;
  std::unique_ptr<simdjson::dom::parser> parser_;
  simdjson::dom::element root_;
};

// "an object", "an array", "a string", ...: how messages name the kind of a value.
std::string_view KindName(simdjson::dom::element value);

// The value as JSON text for a message, cut after 60 bytes.
std::string Shown(simdjson::dom::element value);

// The fields of one object of a file. Each getter returns nullopt for a key that is absent or null
// and kCorrupt, "ORIGIN: KEY: expected WHAT, got VALUE", for a value of another type.
class JsonFields {
 public:
  JsonFields(std::string origin, simdjson::dom::object object)
      : origin_(std::move(origin)), object_(object) {}

  const std::string& origin() const { return origin_; }

  std::optional<simdjson::dom::element> Find(std::string_view key) const;
  Result<std::optional<bool>> Bool(std::string_view key) const;
  Result<std::optional<std::string>> String(std::string_view key) const;
  Result<std::optional<double>> Number(std::string_view key) const;

  // A whole number from `least` to `most`.
  struct Range {
    uint64_t least;
    uint64_t most;
  };
  Result<std::optional<uint64_t>> Integer(std::string_view key, Range range) const;

  Error Wrong(std::string_view key, std::string_view expected, simdjson::dom::element got) const;
  Error Missing(std::string_view key, std::string_view expected) const;
  // kUnsupported: "ORIGIN: KEY 'VALUE' is not supported; supported: WHAT".
  Error Unsupported(std::string_view key, std::string_view value, std::string_view supported) const;

 private:
  std::string origin_;
  simdjson::dom::object object_;
};

}  // namespace sprat

#endif  // SPRAT_MODEL_JSON_H_
