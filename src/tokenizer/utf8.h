// Reading and writing UTF-8 that has been checked with FindInvalidUtf8 (tokenizer.h).
#ifndef SPRAT_TOKENIZER_UTF8_H_
#define SPRAT_TOKENIZER_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace sprat {

// A character and the bytes that it takes.
struct Utf8Character {
  char32_t code_point;
  size_t size_bytes;  // 1 to 4
};

inline unsigned char ByteAt(const char* p, size_t i) { return static_cast<unsigned char>(p[i]); }

// The bytes of the character that starts with `lead`, in valid UTF-8.
inline size_t Utf8Length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xE0) return 2;
  return lead < 0xF0 ? 3 : 4;
}

// The character that starts at p, in valid UTF-8.
inline Utf8Character DecodeUtf8(const char* p) {
  const char32_t lead = ByteAt(p, 0);
  const auto tail = [p](size_t i) -> char32_t { return ByteAt(p, i) & 0x3F; };
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | tail(1), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

// Writes the 1 to 4 bytes of `c` at `out` and returns how many.
inline size_t EncodeUtf8(char32_t c, char* out) {
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    return 1;
  }
  if (c < 0x800) {
    out[0] = static_cast<char>(0xC0 | c >> 6);
    out[1] = static_cast<char>(0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = static_cast<char>(0xE0 | c >> 12);
    out[1] = static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out[2] = static_cast<char>(0x80 | (c & 0x3F));
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | c >> 18);
  out[1] = static_cast<char>(0x80 | (c >> 12 & 0x3F));
  out[2] = static_cast<char>(0x80 | (c >> 6 & 0x3F));
  out[3] = static_cast<char>(0x80 | (c & 0x3F));
  return 4;
}

inline void AppendUtf8(char32_t c, std::string& out) {
  char bytes[4];
  out.append(bytes, EncodeUtf8(c, bytes));
}

// The number of characters in valid UTF-8.
inline size_t CountCharacters(std::string_view text) {
  size_t characters = 0;
  for (const char byte : text) characters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return characters;
}

// The first byte of the character that ends before `end`; `end` is not 0.
inline size_t PreviousCharacter(std::string_view text, size_t end) {
  size_t start = end - 1;
  while ((ByteAt(text.data(), start) & 0xC0) == 0x80) --start;
  return start;
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_UTF8_H_
