// Which bytes of a text separate words, 64 at a time.
#ifndef SPRAT_TOKENIZER_ASCII_BLOCK_H_
#define SPRAT_TOKENIZER_ASCII_BLOCK_H_

#include <cstdint>

#if defined(__SSE2__)
#include "tokenizer/ascii_block_sse2.h"
#else
#include "tokenizer/ascii_block_portable.h"
#endif

#endif  // SPRAT_TOKENIZER_ASCII_BLOCK_H_
