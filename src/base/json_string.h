// Strings as JSON text.
#ifndef SPRAT_BASE_JSON_STRING_H_
#define SPRAT_BASE_JSON_STRING_H_

#include <string>
#include <string_view>

namespace sprat {

// Appends `text` in quotes (RFC 8259, section 7): quotes, backslashes and controls below U+0020 are
// escaped. Bytes that are not UTF-8 become U+FFFD, one for each part that Utf8FaultLength tells, so
// that the output is valid whatever comes in (section 8.1). Everything else stays as it is.
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace sprat

#endif  // SPRAT_BASE_JSON_STRING_H_
