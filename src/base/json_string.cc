#include "base/json_string.h"

#include "base/utf8.h"

namespace sprat {
namespace {

void AppendEscape(char c, std::string& out) {
  constexpr std::string_view kHex{"0123456789abcdef"};
  switch (c) {
    case '"':
    case '\\':
      out += '\\';
      out += c;
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
  }
}

// Appends well-formed UTF-8 with its escapes.
void AppendEscaped(std::string_view text, std::string& out) {
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out += text.substr(copied, i - copied);
    AppendEscape(c, out);
    copied = i + 1;
  }
  out += text.substr(copied);
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    AppendEscaped(text.substr(0, valid), out);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(Utf8FaultLength(text));
  }
  out += '"';
}

}  // namespace sprat
