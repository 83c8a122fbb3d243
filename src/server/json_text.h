// Writing JSON: strings, numbers, and vectors as numbers or base64.
#ifndef SPRAT_SERVER_JSON_TEXT_H_
#define SPRAT_SERVER_JSON_TEXT_H_

#include <span>
#include <string>

#include "base/json_string.h"

namespace sprat::server {

using sprat::AppendJsonString;

// Appends the shortest decimal that reads back as the same float. Requires a finite value.
void AppendNumber(float value, std::string& out);
void AppendNumber(size_t value, std::string& out);

// Appends "[x,y,...]". Requires finite values.
void AppendVector(std::span<const float> values, std::string& out);

// Appends the base64 (RFC 4648, section 4, padded) of the values as little-endian f32, in quotes.
void AppendBase64(std::span<const float> values, std::string& out);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_JSON_TEXT_H_
