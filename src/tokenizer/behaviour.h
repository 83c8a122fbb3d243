// How a tokenizer behaves, as bytes.
#ifndef SPRAT_TOKENIZER_BEHAVIOUR_H_
#define SPRAT_TOKENIZER_BEHAVIOUR_H_

#include <string>

#include "tokenizer/parts.h"

namespace sprat {

// The same for parts that tokenize every text alike, whatever files they came from; see
// Tokenizer::Behaviour. Different for parts that were described differently, also where the
// difference could never be seen.
std::string DescribeBehaviour(const TokenizerParts& parts);

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_BEHAVIOUR_H_
