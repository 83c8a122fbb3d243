#include <utility>

#include "tokenizer/component_readers.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr std::string_view kSupported{
    "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece"};

using Steps = std::vector<Decoder::Step>;

Result<Decoder::Step> ReadWordPiece(const JsonValue& json) {
  const Result<std::string_view> prefix = json.String("prefix");
  if (!prefix.ok()) return prefix.error();
  const Result<bool> cleanup = json.Bool("cleanup");
  if (!cleanup.ok()) return cleanup.error();
  return Decoder::Step(WordPieceDecoder{std::string(prefix.value()), cleanup.value()});
}

Result<Decoder::Step> ReadMetaspaceDecoder(const JsonValue& json) {
  const Result<Metaspace> read = ReadMetaspace(json);
  if (!read.ok()) return read.error();
  return Decoder::Step(
      MetaspaceDecoder{.replacement = read.value().replacement,
                       .drops_first = read.value().prepend != Metaspace::Prepend::kNever});
}

Result<Decoder::Step> ReadStrip(const JsonValue& json) {
  const Result<char32_t> content = ReadCharacter(json, "content");
  if (!content.ok()) return content.error();
  const Result<uint32_t> start = json.Uint("start");
  if (!start.ok()) return start.error();
  const Result<uint32_t> stop = json.Uint("stop");
  if (!stop.ok()) return stop.error();
  return Decoder::Step(StripDecoder{content.value(), start.value(), stop.value()});
}

Result<Decoder::Step> ReadStep(const JsonValue& json, std::string_view type) {
  if (type == "WordPiece") return ReadWordPiece(json);
  if (type == "Metaspace") return ReadMetaspaceDecoder(json);
  if (type == "Strip") return ReadStrip(json);
  if (type == "ByteLevel") return Decoder::Step(ByteLevelDecoder{});
  if (type == "ByteFallback") return Decoder::Step(ByteFallbackDecoder{});
  if (type == "Fuse") return Decoder::Step(FuseDecoder{});
  if (type == "BPEDecoder") {
    const Result<std::string_view> suffix = json.String("suffix");
    if (!suffix.ok()) return suffix.error();
    return Decoder::Step(SuffixDecoder{std::string(suffix.value())});
  }
  if (type == "Replace") {
    Result<Replace> replace = ReadReplace(json);
    if (!replace.ok()) return std::move(replace.error());
    return Decoder::Step(std::move(replace).value());
  }
  return json.UnsupportedType(type, kSupported);
}

Result<void> ReadSteps(const JsonValue& json, Steps& steps) {
  return ForEachComponent(json, "decoders", [&](const JsonValue& part, std::string_view type) {
    Result<Decoder::Step> step = ReadStep(part, type);
    if (!step.ok()) return Result<void>(std::move(step.error()));
    steps.push_back(std::move(step).value());
    return Result<void>();
  });
}

}  // namespace

Decoder ReadDecoder(const JsonValue& root) {
  const auto json = root.Find("decoder");
  if (!json) return Decoder();
  Steps steps;
  Result<void> read = ReadSteps(*json, steps);
  if (!read.ok()) return Decoder(Error(ErrorCode::kUnsupported, read.error().message()));
  return Decoder(std::move(steps));
}

}  // namespace sprat
