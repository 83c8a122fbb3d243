#include <utility>

#include "tokenizer/component_readers.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr std::string_view kSupported{
    "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, "
    "Sequence, Split, Whitespace, WhitespaceSplit"};

// Source: byte_level.rs of Hugging Face tokenizers, after GPT-2.
constexpr std::string_view kByteLevelPattern{
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kWhitespacePattern{R"(\w+|[^\w\s]+)"};

using Steps = std::vector<PreTokenizer::Step>;

Result<SplitBehavior> ReadBehavior(const JsonValue& json) {
  const Result<std::string_view> name = json.StringOr("behavior", "Isolated");
  if (!name.ok()) return name.error();
  const std::pair<std::string_view, SplitBehavior> known[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [text, behavior] : known) {
    if (name.value() == text) return behavior;
  }
  return json.Get("behavior")
      .value()
      .Expected("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

Result<void> AddMetaspace(const JsonValue& json, Steps& steps) {
  const Result<Metaspace> read = ReadMetaspace(json);
  if (!read.ok()) return read.error();
  steps.emplace_back(read.value());
  return {};
}

Result<void> AddByteLevel(const JsonValue& json, Steps& steps) {
  const Result<bool> prefix = json.Bool("add_prefix_space");
  if (!prefix.ok()) return prefix.error();
  const Result<bool> use_regex = json.BoolOr("use_regex", true);
  if (!use_regex.ok()) return use_regex.error();
  if (prefix.value()) steps.emplace_back(PrefixSpace{});
  if (use_regex.value()) {
    steps.emplace_back(RegexSplit{.pattern = Regex::Compile(kByteLevelPattern).value(),
                                  .pattern_text = std::string(kByteLevelPattern),
                                  .behavior = SplitBehavior::kIsolated});
  }
  steps.emplace_back(BytesToCharacters{});
  return {};
}

Result<void> AddSplit(const JsonValue& json, Steps& steps) {
  Result<PatternAndText> pattern = ReadPattern(json);
  if (!pattern.ok()) return std::move(pattern.error());
  const Result<SplitBehavior> behavior = ReadBehavior(json);
  if (!behavior.ok()) return behavior.error();
  const Result<bool> invert = json.Bool("invert");
  if (!invert.ok()) return invert.error();
  steps.emplace_back(RegexSplit{.pattern = std::move(pattern.value().pattern),
                                .pattern_text = std::move(pattern.value().text),
                                .behavior = behavior.value(),
                                .inverted = invert.value()});
  return {};
}

Result<void> AddCharacterSplit(const JsonValue& json, std::string_view type, Steps& steps) {
  CharacterSplit step;
  if (type == "Punctuation") {
    const Result<SplitBehavior> behavior = ReadBehavior(json);
    if (!behavior.ok()) return behavior.error();
    step = {.kind = CharacterSplit::Class::kPunctuation, .behavior = behavior.value()};
  } else if (type == "Digits") {
    const Result<bool> individual = json.Bool("individual_digits");
    if (!individual.ok()) return individual.error();
    step = {.kind = CharacterSplit::Class::kNumeric,
            .behavior = individual.value() ? SplitBehavior::kIsolated : SplitBehavior::kContiguous};
  } else if (type == "CharDelimiterSplit") {
    const Result<char32_t> delimiter = ReadCharacter(json, "delimiter");
    if (!delimiter.ok()) return delimiter.error();
    step = {.kind = CharacterSplit::Class::kOne,
            .behavior = SplitBehavior::kRemoved,
            .one = delimiter.value()};
  }
  steps.emplace_back(step);
  return {};
}

Result<void> AddFixedLength(const JsonValue& json, Steps& steps) {
  FixedLength step;
  if (json.Find("length")) {
    const Result<uint32_t> length = json.Uint("length");
    if (!length.ok()) return length.error();
    if (length.value() == 0) return json.Get("length").value().Expected("at least 1");
    step.length = length.value();
  }
  steps.emplace_back(step);
  return {};
}

Result<void> AddStep(const JsonValue& json, std::string_view type, Steps& steps) {
  if (type == "BertPreTokenizer") {
    for (PreTokenizer::Step& step : BertPreTokenizerSteps()) steps.push_back(std::move(step));
    return {};
  }
  if (type == "Whitespace") {
    steps.emplace_back(RegexSplit{.pattern = Regex::Compile(kWhitespacePattern, kWord).value(),
                                  .pattern_text = std::string(kWhitespacePattern),
                                  .behavior = SplitBehavior::kRemoved,
                                  .inverted = true});
    return {};
  }
  if (type == "Metaspace") return AddMetaspace(json, steps);
  if (type == "ByteLevel") return AddByteLevel(json, steps);
  if (type == "Split") return AddSplit(json, steps);
  if (type == "FixedLength") return AddFixedLength(json, steps);
  for (const std::string_view known :
       {"WhitespaceSplit", "Punctuation", "Digits", "CharDelimiterSplit"}) {
    if (type == known) return AddCharacterSplit(json, type, steps);
  }
  return json.UnsupportedType(type, kSupported);
}

Result<void> ReadSteps(const JsonValue& json, Steps& steps) {
  return ForEachComponent(json, "pretokenizers", [&](const JsonValue& part, std::string_view type) {
    return AddStep(part, type, steps);
  });
}

}  // namespace

Result<char32_t> ReadCharacter(const JsonValue& json, std::string_view key) {
  const Result<std::string_view> text = json.String(key);
  if (!text.ok()) return text.error();
  if (text.value().empty() || Utf8Length(ByteAt(text.value().data(), 0)) != text.value().size()) {
    return json.Get(key).value().Expected("one character");
  }
  return DecodeUtf8(text.value().data()).code_point;
}

Result<Metaspace> ReadMetaspace(const JsonValue& json) {
  const Result<char32_t> replacement = ReadCharacter(json, "replacement");
  if (!replacement.ok()) return replacement.error();
  const Result<bool> prefix = json.BoolOr("add_prefix_space", true);
  if (!prefix.ok()) return prefix.error();
  const Result<std::string_view> scheme = json.StringOr("prepend_scheme", "always");
  if (!scheme.ok()) return scheme.error();
  const Result<bool> split = json.BoolOr("split", true);
  if (!split.ok()) return split.error();
  Metaspace step{.replacement = replacement.value(), .split = split.value()};
  if (scheme.value() == "first") {
    step.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme.value() == "never") {
    step.prepend = Metaspace::Prepend::kNever;
  } else if (scheme.value() != "always") {
    return json.Get("prepend_scheme").value().Expected("first, never or always");
  }
  if (!prefix.value() && step.prepend != Metaspace::Prepend::kNever) {
    return json.Expected("without add_prefix_space false where prepend_scheme is not never");
  }
  return step;
}

Result<PreTokenizer> ReadPreTokenizer(const JsonValue& root) {
  Steps steps;
  if (const auto json = root.Find("pre_tokenizer")) {
    Result<void> read = ReadSteps(*json, steps);
    if (!read.ok()) return std::move(read.error());
  }
  return PreTokenizer(std::move(steps));
}

}  // namespace sprat
