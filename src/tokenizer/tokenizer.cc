#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/added_tokens.h"
#include "tokenizer/behaviour.h"
#include "tokenizer/encoder.h"
#include "tokenizer/parts.h"
#include "tokenizer/scratch_pool.h"

namespace sprat {
namespace {

// The added tokens of one kind, with the contents that are looked for.
Result<AddedTokens> BuildAddedTokens(const TokenizerParts& parts, bool normalized) {
  std::vector<AddedToken> tokens;
  NormalizerScratch scratch;
  for (const AddedToken& token : parts.added_tokens) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    if (!normalized) continue;
    static_cast<void>(parts.normalizer.Normalize(token.content, scratch, tokens.back().content));
  }
  Result<AddedTokens> built = AddedTokens::Build(std::move(tokens));
  if (!built.ok()) return std::move(built.error()).In("added_tokens");
  return built;
}

}  // namespace

class Tokenizer::Pipeline {
 public:
  static Result<std::unique_ptr<const Pipeline>> Build(TokenizerParts parts) {
    Result<AddedTokens> raw = BuildAddedTokens(parts, false);
    if (!raw.ok()) return std::move(raw.error());
    Result<AddedTokens> normalized = BuildAddedTokens(parts, true);
    if (!normalized.ok()) return std::move(normalized.error());
    return std::unique_ptr<const Pipeline>(
        new Pipeline(std::move(parts), std::move(raw).value(), std::move(normalized).value()));
  }

  Result<TokenizedLength> Tokenize(std::string_view text, const TokenizeOptions& options,
                                   std::vector<uint32_t>& ids) const;
  const TokenizerParts& parts() const { return parts_; }
  bool IsSpecial(uint32_t id) const {
    return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
  }

 private:
  Pipeline(TokenizerParts parts, AddedTokens raw, AddedTokens normalized)
      : parts_(std::move(parts)),
        raw_added_(std::move(raw)),
        normalized_added_(std::move(normalized)),
        encoder_(parts_, normalized_added_) {
    for (const AddedToken& token : parts_.added_tokens) {
      if (token.special) special_ids_.push_back(token.id);
    }
    std::sort(special_ids_.begin(), special_ids_.end());
  }

  // How many of a text's own ids the limit leaves room for.
  Result<size_t> Limit(const TokenizeOptions& options) const;

  const TokenizerParts parts_;
  const AddedTokens raw_added_;         // looked for in the text as it is
  const AddedTokens normalized_added_;  // looked for in the normalised text
  const Encoder encoder_;
  std::vector<uint32_t> special_ids_;  // ascending
  mutable ScratchPool<EncoderScratch> pool_;
};

Result<size_t> Tokenizer::Pipeline::Limit(const TokenizeOptions& options) const {
  if (options.max_tokens == 0) return std::numeric_limits<size_t>::max();
  const size_t specials =
      options.add_special_tokens ? parts_.prefix.size() + parts_.suffix.size() : 0;
  if (options.max_tokens >= specials) return options.max_tokens - specials;
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("max_tokens must be at least {}, the number of special tokens, got {}",
                           specials, options.max_tokens));
}

Result<TokenizedLength> Tokenizer::Pipeline::Tokenize(std::string_view text,
                                                      const TokenizeOptions& options,
                                                      std::vector<uint32_t>& ids) const {
  if (const auto invalid = FindInvalidUtf8(text)) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("the text is not UTF-8 at byte {}", *invalid));
  }
  const Result<size_t> limit = Limit(options);
  if (!limit.ok()) return limit.error();
  const EncodeOptions encode{.parse_special_tokens = options.parse_special_tokens,
                             .limit = limit.value()};
  const auto lease = pool_.Borrow();
  EncoderScratch& scratch = *lease;
  scratch.ids.clear();
  raw_added_.ForEachPart(
      text, options.parse_special_tokens,
      [&](std::string_view part) {
        encoder_.Encode(part, part.data() == text.data(), encode, scratch);
        return scratch.ids.size() <= encode.limit;
      },
      [&](uint32_t id) {
        scratch.ids.Append(id);
        return scratch.ids.size() <= encode.limit;
      });
  const auto content = scratch.ids.ids().first(std::min(encode.limit, scratch.ids.size()));
  const size_t before = ids.size();
  if (options.add_special_tokens) ids.insert(ids.end(), parts_.prefix.begin(), parts_.prefix.end());
  ids.insert(ids.end(), content.begin(), content.end());
  if (options.add_special_tokens) ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  const TokenizedLength length{.tokens = ids.size() - before,
                               .truncated = scratch.ids.size() > content.size()};
  if (text.size() > kLargeText) scratch.ReleaseLargeBuffers();
  return length;
}

Result<Tokenizer> Tokenizer::Open(const std::filesystem::path& directory) {
  std::error_code ignored;
  const bool json = std::filesystem::exists(directory / "tokenizer.json", ignored);
  if (!json && !std::filesystem::exists(directory / "vocab.txt", ignored)) {
    return Error(
        ErrorCode::kNotFound,
        fmt::format("{}: there is neither tokenizer.json nor vocab.txt", directory.string()));
  }
  Result<TokenizerParts> parts =
      json ? ReadTokenizerJson(directory / "tokenizer.json") : ReadVocabTxt(directory);
  if (!parts.ok()) return std::move(parts.error());
  for (const std::vector<uint32_t>* special : {&parts.value().prefix, &parts.value().suffix}) {
    for (const uint32_t id : *special) {
      if (id < parts.value().vocabulary.size()) continue;
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{}: the special tokens around a text have the id {}, expected one "
                               "below the vocabulary's size of {}",
                               directory.string(), id, parts.value().vocabulary.size()));
    }
  }
  Result<std::unique_ptr<const Pipeline>> pipeline = Pipeline::Build(std::move(parts).value());
  if (!pipeline.ok()) return std::move(pipeline.error()).In(directory.string());
  return Tokenizer(std::move(pipeline).value());
}

Tokenizer::Tokenizer(std::unique_ptr<const Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<TokenizedLength> Tokenizer::Tokenize(std::string_view text, const TokenizeOptions& options,
                                            std::vector<uint32_t>& ids) const {
  return pipeline_->Tokenize(text, options, ids);
}

Result<std::string> Tokenizer::Decode(std::span<const uint32_t> ids,
                                      bool skip_special_tokens) const {
  const TokenizerParts& parts = pipeline_->parts();
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const uint32_t id : ids) {
    if (skip_special_tokens && pipeline_->IsSpecial(id)) continue;
    if (const auto token = parts.vocabulary.Token(id)) tokens.emplace_back(*token);
  }
  return parts.decoder.Decode(std::move(tokens));
}

std::optional<std::string_view> Tokenizer::Token(uint32_t id) const {
  return pipeline_->parts().vocabulary.Token(id);
}

std::optional<uint32_t> Tokenizer::UnknownId() const {
  return UnknownIdOf(pipeline_->parts().model);
}

std::optional<FileTruncation> Tokenizer::Truncation() const {
  return pipeline_->parts().truncation;
}

size_t Tokenizer::vocabulary_size() const { return pipeline_->parts().vocabulary.size(); }

std::string Tokenizer::Behaviour() const { return DescribeBehaviour(pipeline_->parts()); }

}  // namespace sprat
