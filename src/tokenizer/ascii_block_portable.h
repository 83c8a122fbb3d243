// Classes of 64 bytes, for any machine. See ascii_block.h.
#ifndef SPRAT_TOKENIZER_ASCII_BLOCK_PORTABLE_H_
#define SPRAT_TOKENIZER_ASCII_BLOCK_PORTABLE_H_

#include <cstddef>
#include <cstdint>

namespace sprat {
namespace portable {

// Bit i speaks of byte i. Bytes of neither class belong to words: letters, digits, ASCII controls
// other than tab, LF and CR, and everything that is not ASCII.
struct AsciiBlock {
  uint64_t space;        // space, tab, LF, CR
  uint64_t punctuation;  // ASCII punctuation and symbols
};

inline AsciiBlock ClassifyAscii(const char* p) {
  AsciiBlock block{0, 0};
  for (size_t i = 0; i < 64; ++i) {
    const auto c = static_cast<unsigned char>(p[i]);
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    const bool punctuation = c > ' ' && c < 0x7F && !letter && !digit;
    block.space |= uint64_t{space} << i;
    block.punctuation |= uint64_t{punctuation} << i;
  }
  return block;
}

}  // namespace portable
#if !defined(__SSE2__)
using portable::AsciiBlock;
using portable::ClassifyAscii;
#endif
}  // namespace sprat

#endif  // SPRAT_TOKENIZER_ASCII_BLOCK_PORTABLE_H_
