// Numbers in JSON that the JSON library does not read.
#ifndef SPRAT_BASE_JSON_NUMBERS_H_
#define SPRAT_BASE_JSON_NUMBERS_H_

#include <optional>
#include <string>
#include <string_view>

namespace sprat {

// The same JSON text with ".0" behind each whole number that fits neither int64_t nor uint64_t, and
// with 1e308 for each number beyond the largest double; signs stay, and so do strings. nullopt if
// that changes nothing. Text that is not JSON stays that. At most a tenth longer.
//
// simdjson refuses a text with such a number, yet the tokenizer_config.json of most published
// models says "no limit" by 1000000000000000019884624838656. Which error it gives depends on its
// version (NUMBER_ERROR in 3.0, BIGINT_ERROR in 3.12), so ask for this after any.
std::optional<std::string> WithLargeNumbersAsReals(std::string_view json);

}  // namespace sprat

#endif  // SPRAT_BASE_JSON_NUMBERS_H_
