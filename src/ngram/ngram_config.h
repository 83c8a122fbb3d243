// The shape of an n-gram embedding, as config.json states it.
// Source: LongCat-Flash-Lite (arXiv:2601.21204) and the configurations of its checkpoints.
#ifndef SPRAT_NGRAM_NGRAM_CONFIG_H_
#define SPRAT_NGRAM_NGRAM_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat {

// Token ids first <= id < last.
struct TokenRange {
  uint32_t first = 0;
  uint32_t last = 0;

  bool Contains(uint32_t id) const { return first <= id && id < last; }
  bool operator==(const TokenRange&) const = default;
};

// Everything that the hash and the shapes of the tensors depend on. With G = K (N - 1) tables, the
// table of order n = 2..N and split j = 0..K-1 has index i = (n - 2) K + j.
struct NgramConfig {
  uint32_t vocabulary = 0;          // V  vocab_size
  uint32_t hidden = 0;              // H  hidden_size
  uint32_t max_order = 0;           // N  emb_neighbor_num: the longest n-gram, in tokens
  uint32_t splits = 0;              // K  emb_split_num: tables an order
  uint64_t base_rows = 0;           //    int(r V), r = ngram_vocab_size_ratio
  uint32_t eos = 0;                 //    eos_token_id: the look-back does not cross it
  std::vector<TokenRange> ignored;  //    nor any of these
  uint32_t row_multiple = 1;        //    embP: stored rows are padded up to a multiple of this
  NgramScale scale = NgramScale::kAverage;

  uint32_t tables() const { return splits * (max_order - 1); }         // G
  uint32_t width() const { return hidden / tables(); }                 // d: columns of one table
  uint32_t order(uint32_t table) const { return table / splits + 2; }  // n
  uint64_t rows(uint32_t table) const { return base_rows + 2 * uint64_t{table} + 1; }  // M_i
  uint64_t stored_rows(uint32_t table) const {
    return (rows(table) + row_multiple - 1) / row_multiple * row_multiple;
  }

  // The largest sum that the hash can form before the modulo.
  uint64_t max_sum() const {
    return (vocabulary - uint64_t{1}) +
           (max_order - uint64_t{1}) * (vocabulary - uint64_t{1}) * (rows(tables() - 1) - 1);
  }

  // Whether the look-back stops at this token: it then counts as 0, and so does what is before it.
  bool Stops(uint32_t token) const;
};

// What the caller decides in place of the file.
struct NgramConfigOverrides {
  std::optional<NgramScale> scale;
  std::optional<std::string> ignored_tokens;  // as ParseTokenRanges; empty: none
};

// Reads the text of a config.json, which messages call `origin`. nullopt if it has none of the
// n-gram keys.
//
// Keys: vocab_size, hidden_size, eos_token_id; ngram_vocab_size_ratio, emb_neighbor_num,
// emb_split_num, or oe_vocab_size_ratio, oe_neighbor_num, oe_split_num: the three of a family or
// none of them (null counts as absent), and two families must agree. Options: embP or emb_tp_num
// (row multiple), ngram_fix_normalize_factor, special_token_scope (counts only where
// ngram_exclude_sp_token is true), oe_ignored_token_ids (a list).
//
// The scale: the caller's; else the fixed factor if the file asks for it; else what `architectures`
// names; a file that names no architecture gets the average.
//
// Errors, by key and value: kCorrupt for a missing key, a wrong type, a number out of range, a
// hidden size that G does not divide, a table of 2^32 rows or more, a hash sum that could exceed 63
// bits; kUnsupported for an architecture whose scale is not known.
Result<std::optional<NgramConfig>> ParseNgramConfig(const std::string& origin,
                                                    std::string_view text,
                                                    const NgramConfigOverrides& overrides = {});

// The same of a file. Errors: also those of JsonDocument::Read.
Result<std::optional<NgramConfig>> ReadNgramConfig(const std::filesystem::path& path,
                                                   const NgramConfigOverrides& overrides = {});

// "0:4,36:55": half-open ranges of token ids, first < last, in any order; "" is none.
// Errors: kInvalidArgument naming the piece.
Result<std::vector<TokenRange>> ParseTokenRanges(std::string_view text);

}  // namespace sprat

#endif  // SPRAT_NGRAM_NGRAM_CONFIG_H_
