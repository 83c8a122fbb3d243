// UTF-8 at the border: every text is checked before it reaches the engine.
#ifndef SPRAT_CLI_UTF8_H_
#define SPRAT_CLI_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace sprat::cli {

// The largest n <= limit at which `text`, well-formed UTF-8, can be cut without splitting a
// character; text.size() if that is smaller.
size_t CutUtf8(std::string_view text, size_t limit);

// `text` fit for a terminal or a one-line table: control characters (a file could hold escape
// sequences) and line breaks become spaces, runs of white space become one, bytes that are not
// UTF-8 become U+FFFD.
std::string Printable(std::string_view text);

// The first `characters` characters of `text`, the last one replaced by an ellipsis if any were
// dropped. Requires well-formed UTF-8 and characters >= 1.
std::string Shorten(std::string_view text, size_t characters);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_UTF8_H_
