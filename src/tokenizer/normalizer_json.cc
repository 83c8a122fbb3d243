#include <fmt/format.h>

#include <utility>

#include "tokenizer/component_readers.h"

namespace sprat {
namespace {

constexpr std::string_view kSupported{
    "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
    "Replace, "
    "Sequence, Strip, StripAccents"};

Result<Normalizer::Step> ReadBert(const JsonValue& json) {
  const Result<bool> clean_text = json.Bool("clean_text");
  const Result<bool> handle_chinese_chars = json.Bool("handle_chinese_chars");
  const Result<bool> lowercase = json.Bool("lowercase");
  for (const auto* flag : {&clean_text, &handle_chinese_chars, &lowercase}) {
    if (!flag->ok()) return flag->error();
  }
  const Result<bool> strip_accents = json.BoolOr("strip_accents", lowercase.value());
  if (!strip_accents.ok()) return strip_accents.error();
  return Normalizer::Step(BertNormalizer({.clean_text = clean_text.value(),
                                          .handle_chinese_chars = handle_chinese_chars.value(),
                                          .strip_accents = strip_accents.value(),
                                          .lowercase = lowercase.value()}));
}

Result<Normalizer::Step> ReadPrecompiled(const JsonValue& json) {
  const Result<std::string_view> charsmap = json.String("precompiled_charsmap");
  if (!charsmap.ok()) return charsmap.error();
  Result<Precompiled> parsed = Precompiled::Parse(charsmap.value());
  if (!parsed.ok()) return std::move(parsed.error()).In(json.place());
  return Normalizer::Step(std::move(parsed).value());
}

Result<Normalizer::Step> ReadStrip(const JsonValue& json) {
  const Result<bool> left = json.Bool("strip_left");
  if (!left.ok()) return left.error();
  const Result<bool> right = json.Bool("strip_right");
  if (!right.ok()) return right.error();
  return Normalizer::Step(Strip{left.value(), right.value()});
}

Result<Normalizer::Step> ReadPrepend(const JsonValue& json) {
  const Result<std::string_view> text = json.String("prepend");
  if (!text.ok()) return text.error();
  return Normalizer::Step(Prepend{std::string(text.value())});
}

Result<Normalizer::Step> ReadStep(const JsonValue& json, std::string_view type) {
  if (type == "BertNormalizer") return ReadBert(json);
  if (type == "Precompiled") return ReadPrecompiled(json);
  if (type == "Replace") {
    Result<Replace> replace = ReadReplace(json);
    if (!replace.ok()) return std::move(replace.error());
    return Normalizer::Step(std::move(replace).value());
  }
  if (type == "Strip") return ReadStrip(json);
  if (type == "Prepend") return ReadPrepend(json);
  const std::pair<std::string_view, Normalizer::Step> plain[] = {
      {"NFC", UnicodeForm{.compatible = false, .compose = true}},
      {"NFD", UnicodeForm{.compatible = false, .compose = false}},
      {"NFKC", UnicodeForm{.compatible = true, .compose = true}},
      {"NFKD", UnicodeForm{.compatible = true, .compose = false}},
      {"Lowercase", Lowercase{}},
      {"StripAccents", StripAccents{}},
      {"Nmt", Nmt{}},
      {"ByteLevel", ByteLevelNormalizer{}}};
  for (const auto& [name, step] : plain) {
    if (type == name) return step;
  }
  return json.UnsupportedType(type, kSupported);
}

Result<void> ReadSteps(const JsonValue& json, std::vector<Normalizer::Step>& steps) {
  return ForEachComponent(json, "normalizers", [&](const JsonValue& part, std::string_view type) {
    Result<Normalizer::Step> step = ReadStep(part, type);
    if (!step.ok()) return Result<void>(std::move(step.error()));
    steps.push_back(std::move(step).value());
    return Result<void>();
  });
}

}  // namespace

Result<Normalizer> ReadNormalizer(const JsonValue& root) {
  std::vector<Normalizer::Step> steps;
  if (const auto json = root.Find("normalizer")) {
    Result<void> read = ReadSteps(*json, steps);
    if (!read.ok()) return std::move(read.error());
  }
  return Normalizer(std::move(steps));
}

Result<Replace> ReadReplace(const JsonValue& json) {
  Result<PatternAndText> pattern = ReadPattern(json);
  if (!pattern.ok()) return std::move(pattern.error());
  const Result<std::string_view> content = json.String("content");
  if (!content.ok()) return content.error();
  return Replace{std::move(pattern.value().pattern), std::move(pattern.value().text),
                 std::string(content.value())};
}

Result<PatternAndText> ReadPattern(const JsonValue& owner) {
  const Result<JsonValue> json = owner.Get("pattern");
  if (!json.ok()) return json.error();
  if (json.value().Find("String")) {
    const Result<std::string_view> text = json.value().String("String");
    if (!text.ok()) return text.error();
    if (text.value().empty()) return json.value().Expected("a pattern that is not empty");
    return PatternAndText{Regex::Literal(text.value()), fmt::format("String:{}", text.value())};
  }
  const Result<std::string_view> text = json.value().String("Regex");
  if (!text.ok()) return text.error();
  Result<Regex> regex = Regex::Compile(text.value());
  if (!regex.ok()) return std::move(regex.error()).In(json.value().place());
  return PatternAndText{std::move(regex).value(), fmt::format("Regex:{}", text.value())};
}

}  // namespace sprat
