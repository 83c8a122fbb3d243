#include "ngram/ngram_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "model/json.h"

namespace sprat {
namespace {

using simdjson::dom::element;

constexpr uint32_t kLargestOrder{32};
constexpr uint32_t kMostTables{4096};
constexpr uint32_t kMostHidden{1 << 20};
constexpr uint32_t kMostRowMultiple{1 << 20};
constexpr uint32_t kMostRows{std::numeric_limits<uint32_t>::max()};

// The three keys of a family, in the order ratio, neighbours, splits.
using Family = std::array<const char*, 3>;
constexpr Family kNgramKeys{"ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num"};
constexpr Family kOverEmbeddingKeys{"oe_vocab_size_ratio", "oe_neighbor_num", "oe_split_num"};

// Architectures whose scale is known from their published code.
struct ArchitectureScale {
  std::string_view name;
  NgramScale scale;
};
constexpr ArchitectureScale kArchitectures[] = {
    {"LongcatFlashNgramForCausalLM", NgramScale::kAverage},
    {"LongcatFlashSparseForCausalLM", NgramScale::kAverage},
    {"LongcatFlashForCausalLM", NgramScale::kAverage},
    {"LongcatCausalLM", NgramScale::kAverage},
};

// A whole number that must be there.
Result<uint32_t> Require(const JsonFields& json, std::string_view key, JsonFields::Range range) {
  Result<std::optional<uint64_t>> number = json.Integer(key, range);
  if (!number.ok()) return std::move(number.error());
  if (!number.value()) return json.Missing(key, "a whole number");
  return static_cast<uint32_t>(*number.value());
}

Result<bool> Flag(const JsonFields& json, std::string_view key) {
  Result<std::optional<bool>> flag = json.Bool(key);
  if (!flag.ok()) return std::move(flag.error());
  return flag.value().value_or(false);
}

// int(r * V), as Python computes it: exact for an integer r, in double precision otherwise.
Result<uint64_t> BaseRows(const JsonFields& json, std::string_view key, uint32_t vocabulary) {
  const element ratio = *json.Find(key);
  double rows = 0;
  uint64_t factor = 0;
  if (ratio.get(factor) == simdjson::SUCCESS && factor <= kMostRows / vocabulary) {
    rows = static_cast<double>(factor * vocabulary);  // below 2^32: exact
  } else if (ratio.is_double()) {
    rows = std::trunc(double(ratio) * vocabulary);
  }
  if (!(rows >= 1 && rows <= static_cast<double>(kMostRows))) {
    return json.Wrong(key, "a number r with 1 <= int(r * vocab_size) < 2^32", ratio);
  }
  return static_cast<uint64_t>(rows);
}

// Which family the file uses: nullptr for none of either.
Result<const Family*> ChooseFamily(const JsonFields& json) {
  const Family* chosen = nullptr;
  for (const Family* family : {&kNgramKeys, &kOverEmbeddingKeys}) {
    const auto present = [&](const char* key) { return json.Find(key).has_value(); };
    const auto found = std::count_if(family->begin(), family->end(), present);
    if (found == 0) continue;
    if (found != static_cast<ptrdiff_t>(family->size())) {
      const char* missing = *std::find_if_not(family->begin(), family->end(), present);
      const char* there = *std::find_if(family->begin(), family->end(), present);
      return json.Missing(
          missing, fmt::format("all of {} or none of them, and {} is {}", fmt::join(*family, ", "),
                               there, Shown(*json.Find(there))));
    }
    if (chosen == nullptr) {
      chosen = family;
      continue;
    }
    for (size_t i = 0; i < family->size(); ++i) {
      const element first = *json.Find((*chosen)[i]), second = *json.Find((*family)[i]);
      if (Shown(first) == Shown(second)) continue;
      return json.Wrong((*family)[i],
                        fmt::format("the value of {}, {}", (*chosen)[i], Shown(first)), second);
    }
  }
  return chosen;
}

Result<void> CheckSizes(const JsonFields& json, const NgramConfig& config,
                        std::string_view ratio_key) {
  if (config.hidden % config.tables() != 0) {
    return json.Wrong("hidden_size",
                      fmt::format("a multiple of the {} tables, {} splits for each of {} orders",
                                  config.tables(), config.splits, config.max_order - 1),
                      *json.Find("hidden_size"));
  }
  const uint32_t last = config.tables() - 1;
  if (config.stored_rows(last) > kMostRows) {
    return json.Wrong(ratio_key,
                      fmt::format("tables of fewer than 2^32 rows (table {} would have {})", last,
                                  config.stored_rows(last)),
                      *json.Find(ratio_key));
  }
  // In long double: the product itself may not fit 64 bits.
  const long double sum = static_cast<long double>(config.max_order - 1) *
                          static_cast<long double>(config.vocabulary) *
                          static_cast<long double>(config.rows(last));
  if (sum >= 0x1p63L - 0x1p32L) {
    return json.Wrong(ratio_key,
                      fmt::format("tables small enough for the hash of {} tokens of vocab_size {} "
                                  "to fit 63 bits ({} rows do not)",
                                  config.max_order, config.vocabulary, config.rows(last)),
                      *json.Find(ratio_key));
  }
  return {};
}

Result<std::vector<TokenRange>> IgnoredScope(const JsonFields& json) {
  Result<bool> excludes = Flag(json, "ngram_exclude_sp_token");
  if (!excludes.ok()) return std::move(excludes.error());
  Result<std::optional<std::string>> scope = json.String("special_token_scope");
  if (!scope.ok()) return std::move(scope.error());
  if (!excludes.value() || !scope.value()) return std::vector<TokenRange>();
  Result<std::vector<TokenRange>> ranges = ParseTokenRanges(*scope.value());
  if (ranges.ok()) return ranges;
  return Error(ErrorCode::kCorrupt,
               fmt::format("{}: special_token_scope: {}", json.origin(), ranges.error().message()));
}

Result<void> AppendIgnoredIds(const JsonFields& json, std::vector<TokenRange>& ignored) {
  constexpr std::string_view kKey{"oe_ignored_token_ids"};
  const std::optional<element> list = json.Find(kKey);
  if (!list) return {};
  simdjson::dom::array ids;
  if (list->get(ids) != simdjson::SUCCESS) return json.Wrong(kKey, "a list of token ids", *list);
  for (const element id : ids) {
    uint64_t token = 0;
    if (id.get(token) != simdjson::SUCCESS || token >= kMostRows) {
      return json.Wrong(kKey, "a list of token ids", id);
    }
    const auto first = static_cast<uint32_t>(token);
    if (!ignored.empty() && ignored.back().last == first) {
      ++ignored.back().last;
    } else {
      ignored.push_back({first, first + 1});
    }
  }
  return {};
}

Result<std::vector<TokenRange>> ReadIgnored(const JsonFields& json,
                                            const NgramConfigOverrides& overrides) {
  if (overrides.ignored_tokens) {
    Result<std::vector<TokenRange>> ranges = ParseTokenRanges(*overrides.ignored_tokens);
    if (!ranges.ok()) return std::move(ranges.error()).In("ignored tokens");
    return ranges;
  }
  Result<std::vector<TokenRange>> ignored = IgnoredScope(json);
  if (!ignored.ok()) return ignored;
  Result<void> appended = AppendIgnoredIds(json, ignored.value());
  if (!appended.ok()) return std::move(appended.error());
  return ignored;
}

Result<NgramScale> ReadScale(const JsonFields& json, const NgramConfigOverrides& overrides) {
  if (overrides.scale) return *overrides.scale;
  Result<bool> fixed = Flag(json, "ngram_fix_normalize_factor");
  if (!fixed.ok()) return std::move(fixed.error());
  if (fixed.value()) return NgramScale::kFixedFactor;
  const std::optional<element> architectures = json.Find("architectures");
  if (!architectures) return NgramScale::kAverage;
  std::string_view name;
  if (!architectures->is_array() || architectures->at(0).get(name) != simdjson::SUCCESS) {
    return json.Wrong("architectures", "a list that starts with a name", *architectures);
  }
  std::vector<std::string_view> names;
  for (const ArchitectureScale& known : kArchitectures) {
    if (name == known.name) return known.scale;
    names.push_back(known.name);
  }
  return json.Unsupported("architectures", name,
                          fmt::format("{}, or any if the scale of the word row is given: average, "
                                      "fixed or full",
                                      fmt::join(names, ", ")));
}

Result<NgramConfig> ReadConfig(const JsonFields& json, const Family& family,
                               const NgramConfigOverrides& overrides) {
  Result<uint32_t> vocabulary = Require(json, "vocab_size", {1, kMostRows});
  if (!vocabulary.ok()) return std::move(vocabulary.error());
  Result<uint32_t> hidden = Require(json, "hidden_size", {1, kMostHidden});
  if (!hidden.ok()) return std::move(hidden.error());
  Result<uint32_t> eos = Require(json, "eos_token_id", {0, kMostRows});
  if (!eos.ok()) return std::move(eos.error());
  Result<uint32_t> order = Require(json, family[1], {2, kLargestOrder});
  if (!order.ok()) return std::move(order.error());
  Result<uint32_t> splits = Require(json, family[2], {1, kMostTables / (order.value() - 1)});
  if (!splits.ok()) return std::move(splits.error());
  Result<uint64_t> base_rows = BaseRows(json, family[0], vocabulary.value());
  if (!base_rows.ok()) return std::move(base_rows.error());
  Result<std::vector<TokenRange>> ignored = ReadIgnored(json, overrides);
  if (!ignored.ok()) return std::move(ignored.error());
  Result<NgramScale> scale = ReadScale(json, overrides);
  if (!scale.ok()) return std::move(scale.error());
  NgramConfig config{.vocabulary = vocabulary.value(),
                     .hidden = hidden.value(),
                     .max_order = order.value(),
                     .splits = splits.value(),
                     .base_rows = base_rows.value(),
                     .eos = eos.value(),
                     .ignored = std::move(ignored).value(),
                     .scale = scale.value()};
  for (const char* key : {"embP", "emb_tp_num"}) {
    Result<std::optional<uint64_t>> multiple = json.Integer(key, {1, kMostRowMultiple});
    if (!multiple.ok()) return std::move(multiple.error());
    if (multiple.value()) config.row_multiple = static_cast<uint32_t>(*multiple.value());
  }
  return config;
}

Result<std::optional<NgramConfig>> FromDocument(const JsonDocument& document,
                                                const NgramConfigOverrides& overrides) {
  Result<simdjson::dom::object> root = document.Object();
  if (!root.ok()) return std::move(root.error());
  const JsonFields json(document.origin(), root.value());
  Result<const Family*> family = ChooseFamily(json);
  if (!family.ok()) return std::move(family.error());
  if (family.value() == nullptr) return std::optional<NgramConfig>();
  Result<NgramConfig> config = ReadConfig(json, *family.value(), overrides);
  if (!config.ok()) return std::move(config.error());
  Result<void> sizes = CheckSizes(json, config.value(), (*family.value())[0]);
  if (!sizes.ok()) return std::move(sizes.error());
  return std::optional<NgramConfig>(std::move(config).value());
}

}  // namespace

bool NgramConfig::Stops(uint32_t token) const {
  return token == eos || std::any_of(ignored.begin(), ignored.end(),
                                     [token](TokenRange range) { return range.Contains(token); });
}

Result<std::optional<NgramConfig>> ParseNgramConfig(const std::string& origin,
                                                    std::string_view text,
                                                    const NgramConfigOverrides& overrides) {
  Result<JsonDocument> document = JsonDocument::Parse(origin, std::as_bytes(std::span(text)));
  if (!document.ok()) return std::move(document.error());
  return FromDocument(document.value(), overrides);
}

Result<std::optional<NgramConfig>> ReadNgramConfig(const std::filesystem::path& path,
                                                   const NgramConfigOverrides& overrides) {
  Result<JsonDocument> document = JsonDocument::Read(path);
  if (!document.ok()) return std::move(document.error());
  return FromDocument(document.value(), overrides);
}

Result<std::vector<TokenRange>> ParseTokenRanges(std::string_view text) {
  std::vector<TokenRange> ranges;
  const std::string_view whole = text;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, text.find(','));
    TokenRange range;
    const char* end = piece.data() + piece.size();
    const std::from_chars_result first = std::from_chars(piece.data(), end, range.first);
    bool valid = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
    if (valid) {
      const std::from_chars_result last = std::from_chars(first.ptr + 1, end, range.last);
      valid = last.ec == std::errc() && last.ptr == end && range.first < range.last;
    }
    // A comma at the end leaves an empty piece behind it, which is as wrong as one in the middle.
    const bool trailing_comma = piece.size() + 1 == text.size();
    if (!valid || trailing_comma) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("'{}' in '{}': expected first:last with first < last, such as "
                               "\"0:4,36:55\"",
                               trailing_comma ? "," : piece, whole));
    }
    ranges.push_back(range);
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
  }
  return ranges;
}

Result<void> CheckTokenRanges(std::string_view text) {
  Result<std::vector<TokenRange>> ranges = ParseTokenRanges(text);
  if (!ranges.ok()) return std::move(ranges.error());
  return {};
}

}  // namespace sprat
