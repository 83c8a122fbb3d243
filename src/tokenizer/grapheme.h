// Extended grapheme clusters (UAX #29), as the reference tokenizer cuts them.
#ifndef SPRAT_TOKENIZER_GRAPHEME_H_
#define SPRAT_TOKENIZER_GRAPHEME_H_

#include <cstddef>
#include <string_view>

namespace sprat {

// The bytes of the first cluster of `text` (valid UTF-8, not empty; it starts at a cluster's
// start).
size_t GraphemeLength(std::string_view text);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_GRAPHEME_H_
