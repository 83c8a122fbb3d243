// Bytes as printable characters, the way of GPT-2's vocabulary.
#ifndef SPRAT_TOKENIZER_BYTE_LEVEL_H_
#define SPRAT_TOKENIZER_BYTE_LEVEL_H_

#include <string>
#include <string_view>

#include "tokenizer/utf8.h"

namespace sprat {

// Printable bytes of Latin-1 stand for themselves, the 68 others for U+0100 and up, in order.
// Source: bytes_to_unicode of GPT-2, bytes_char of Hugging Face tokenizers.
inline char32_t ByteLevelCharacter(unsigned char byte) {
  if (byte <= 0x20) return 0x100u + byte;
  if (byte < 0x7F) return byte;
  if (byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
  return byte == 0xAD ? 0x143u : byte;
}

inline void AppendByteLevel(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i)
    AppendUtf8(ByteLevelCharacter(ByteAt(text.data(), i)), out);
}

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_BYTE_LEVEL_H_
