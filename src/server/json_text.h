// Writing JSON: strings, numbers, and vectors as numbers or base64.
#ifndef SPRAT_SERVER_JSON_TEXT_H_
#define SPRAT_SERVER_JSON_TEXT_H_

#include <span>
#include <string>
#include <string_view>

namespace sprat::server {

// Appends `text` in quotes. Bytes that are not UTF-8 become U+FFFD, one for each maximal part that
// could not be continued, so that the output is valid whatever comes in (RFC 8259, section 8.1).
void AppendJsonString(std::string_view text, std::string& out);

// Appends the shortest decimal that reads back as the same float. Requires a finite value.
void AppendNumber(float value, std::string& out);
void AppendNumber(size_t value, std::string& out);

// Appends "[x,y,...]". Requires finite values.
void AppendVector(std::span<const float> values, std::string& out);

// Appends the base64 (RFC 4648, section 4, padded) of the values as little-endian f32, in quotes.
void AppendBase64(std::span<const float> values, std::string& out);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_JSON_TEXT_H_
