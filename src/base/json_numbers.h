// Numbers in JSON that the JSON library does not read.
#ifndef SPRAT_BASE_JSON_NUMBERS_H_
#define SPRAT_BASE_JSON_NUMBERS_H_

#include <string>
#include <string_view>

namespace sprat {

// The same JSON text with ".0" behind each whole number of 20 digits or more, outside strings.
// simdjson refuses a whole number beyond 64 bits, yet the tokenizer_config.json of most published
// models says "no limit" by 1000000000000000019884624838656. Text that is not JSON stays that.
std::string WithLargeNumbersAsReals(std::string_view json);

}  // namespace sprat

#endif  // SPRAT_BASE_JSON_NUMBERS_H_
