// What is UTF-8 and what is not (The Unicode Standard 15, table 3-7: no surrogates, no overlong
// forms, nothing above U+10FFFF).
#ifndef SPRAT_BASE_UTF8_H_
#define SPRAT_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace sprat {

// Bytes of the character that starts at text[0]; 0 if none does. Requires a text that is not empty.
size_t Utf8CharacterLength(std::string_view text);

// Where no character starts at text[0]: how many bytes one U+FFFD stands for, which is the longest
// part that could have become a character had other bytes followed, and at least 1 (ibid., section
// 3.9, "U+FFFD Substitution of Maximal Subparts").
size_t Utf8FaultLength(std::string_view text);

// The length of the longest prefix of `bytes` that is well-formed. It equals bytes.size() if all of
// it is; otherwise it is the offset of the first byte that no character can start with.
size_t ValidUtf8Prefix(std::string_view bytes);

}  // namespace sprat

#endif  // SPRAT_BASE_UTF8_H_
