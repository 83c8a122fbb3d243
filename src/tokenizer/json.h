// A JSON value that knows its place in the file, so that every error can say where it is.
#ifndef SPRAT_TOKENIZER_JSON_H_
#define SPRAT_TOKENIZER_JSON_H_

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat {

// Valid as long as the parser that made `element`. All errors are kCorrupt and read
// "PLACE must be WHAT, found VALUE" or "PLACE is missing".
class JsonValue {
 public:
  JsonValue(simdjson::dom::element element, std::string place)
      : element_(element), place_(std::move(place)) {}

  // The member `key`: an error if there is none or this is no object.
  Result<JsonValue> Get(std::string_view key) const;
  // The member `key`, or nullopt if there is none or it is null.
  std::optional<JsonValue> Find(std::string_view key) const;

  Result<bool> Bool() const;
  Result<uint32_t> Uint() const;
  Result<double> Number() const;
  Result<std::string_view> String() const;
  Result<std::vector<JsonValue>> Array() const;
  // The member `type` of an object, as the components of tokenizer.json have it.
  Result<std::string_view> Type() const;

  // Shorthands for a member that must be there.
  Result<bool> Bool(std::string_view key) const;
  Result<uint32_t> Uint(std::string_view key) const;
  Result<std::string_view> String(std::string_view key) const;
  Result<std::vector<JsonValue>> List(std::string_view key) const;

  // A member that may be absent, or null, and is `otherwise` then.
  Result<bool> BoolOr(std::string_view key, bool otherwise) const;
  Result<std::string_view> StringOr(std::string_view key, std::string_view otherwise) const;

  bool IsNull() const { return element_.is_null(); }
  bool IsArray() const { return element_.is_array(); }
  bool IsObject() const { return element_.is_object(); }
  simdjson::dom::element element() const { return element_; }
  const std::string& place() const { return place_; }

  // kCorrupt: this is not `expected`.
  Error Expected(std::string_view expected) const;
  // kUnsupported: the type of this component is not one of `supported`.
  Error UnsupportedType(std::string_view type, std::string_view supported) const;

 private:
  simdjson::dom::element element_;
  std::string place_;
};

// The text of a small JSON value for a message, cut to 60 bytes.
std::string Excerpt(simdjson::dom::element element);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_JSON_H_
