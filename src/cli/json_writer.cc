#include "cli/json_writer.h"

#include <algorithm>

#include "cli/utf8.h"

namespace sprat::cli {
namespace {

// Appends well-formed UTF-8 with its escapes.
void AppendEscaped(std::string_view text, std::string& out) {
  constexpr std::string_view kHex{"0123456789abcdef"};
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    AppendEscaped(text.substr(0, valid), out);
    if (valid == text.size()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(valid + 1);
  }
  out += '"';
}

JsonObject& JsonObject::AddRaw(std::string_view key, std::string_view json) {
  if (text_.size() > 1) text_ += ',';
  AppendJsonString(key, text_);
  text_ += ':';
  text_ += json;
  return *this;
}

JsonObject& JsonObject::Add(std::string_view key, std::string_view text) {
  std::string quoted;
  AppendJsonString(text, quoted);
  return AddRaw(key, quoted);
}

}  // namespace sprat::cli
