#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bert_encoder.h"
#include "tokenizer/id_buffer.h"
#include "tokenizer/parts.h"
#include "tokenizer/scratch_pool.h"

namespace sprat {
namespace {

struct Scratch {
  BertScratch bert;
  IdBuffer ids;
  std::string normalized;
};

// The added tokens of one kind, with the contents that are looked for.
Result<AddedTokens> BuildAddedTokens(const TokenizerParts& parts, bool normalized) {
  std::vector<AddedToken> tokens;
  std::vector<PendingMark> marks;
  for (const AddedToken& token : parts.added_tokens) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    if (!normalized) continue;
    tokens.back().content.clear();
    parts.normalizer.Normalize(token.content, marks, tokens.back().content);
  }
  Result<AddedTokens> built = AddedTokens::Build(std::move(tokens));
  if (!built.ok()) return std::move(built.error()).In("added_tokens");
  return built;
}

// Fields of Behaviour(), each with its length, so that no two sequences of fields look the same.
class BehaviourWriter {
 public:
  void Add(std::string_view text) { out_ += fmt::format("{}:{};", text.size(), text); }
  void Add(uint64_t number) { out_ += fmt::format("{};", number); }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

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
  std::string Behaviour() const;
  const Vocabulary& vocabulary() const { return parts_.vocabulary; }

 private:
  Pipeline(TokenizerParts parts, AddedTokens raw, AddedTokens normalized)
      : parts_(std::move(parts)),
        raw_added_(std::move(raw)),
        normalized_added_(std::move(normalized)),
        encoder_(normalized_added_.empty() ? parts_.normalizer : unchanged_, parts_.model) {}

  // Calls on_text(part) and on_token(id) for what `added` makes of `text`, until there are more
  // than `limit` ids.
  template <typename OnText>
  static void SplitOff(const AddedTokens& added, std::string_view text, bool parse_special_tokens,
                       size_t limit, IdBuffer& ids, const OnText& on_text);
  // One text without special tokens.
  void Encode(std::string_view text, bool parse_special_tokens, size_t limit,
              Scratch& scratch) const;

  TokenizerParts parts_;
  AddedTokens raw_added_;         // looked for in the text as it is
  AddedTokens normalized_added_;  // looked for in the normalised text
  // What the encoder uses where the text was normalised before, to look for added tokens.
  const BertNormalizer unchanged_{BertOptions{.clean_text = false,
                                              .handle_chinese_chars = false,
                                              .strip_accents = false,
                                              .lowercase = false}};
  BertEncoder encoder_;
  mutable ScratchPool<Scratch> pool_;
};

template <typename OnText>
void Tokenizer::Pipeline::SplitOff(const AddedTokens& added, std::string_view text,
                                   bool parse_special_tokens, size_t limit, IdBuffer& ids,
                                   const OnText& on_text) {
  AddedTokens::Position position;
  while (ids.size() <= limit) {
    const auto match = added.Next(text, position, parse_special_tokens);
    if (!match) break;
    if (position.covered < match->begin) {
      on_text(text.substr(position.covered, match->begin - position.covered));
    }
    ids.Append(match->id);
    position = {match->resume, match->end};
  }
  if (position.covered < text.size()) on_text(text.substr(position.covered));
}

void Tokenizer::Pipeline::Encode(std::string_view text, bool parse_special_tokens, size_t limit,
                                 Scratch& scratch) const {
  const auto encode = [&](std::string_view part) {
    encoder_.Encode(part, limit, scratch.bert, scratch.ids);
  };
  SplitOff(raw_added_, text, parse_special_tokens, limit, scratch.ids, [&](std::string_view part) {
    if (normalized_added_.empty()) return encode(part);
    scratch.normalized.clear();
    parts_.normalizer.Normalize(part, scratch.bert.marks, scratch.normalized);
    SplitOff(normalized_added_, scratch.normalized, parse_special_tokens, limit, scratch.ids,
             encode);
  });
}

Result<TokenizedLength> Tokenizer::Pipeline::Tokenize(std::string_view text,
                                                      const TokenizeOptions& options,
                                                      std::vector<uint32_t>& ids) const {
  if (const auto invalid = FindInvalidUtf8(text)) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("the text is not UTF-8 at byte {}", *invalid));
  }
  const size_t specials =
      options.add_special_tokens ? parts_.prefix.size() + parts_.suffix.size() : 0;
  size_t limit = std::numeric_limits<size_t>::max();
  if (options.max_tokens > 0) {
    if (options.max_tokens < specials) {
      return Error(
          ErrorCode::kInvalidArgument,
          fmt::format("max_tokens must be at least {}, the number of special tokens, got {}",
                      specials, options.max_tokens));
    }
    limit = options.max_tokens - specials;
  }
  const auto lease = pool_.Borrow();
  Scratch& scratch = *lease;
  scratch.ids.clear();
  Encode(text, options.parse_special_tokens, limit, scratch);
  const auto content = scratch.ids.ids().first(std::min(limit, scratch.ids.size()));
  const size_t before = ids.size();
  if (options.add_special_tokens) ids.insert(ids.end(), parts_.prefix.begin(), parts_.prefix.end());
  ids.insert(ids.end(), content.begin(), content.end());
  if (options.add_special_tokens) ids.insert(ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  return TokenizedLength{.tokens = ids.size() - before,
                         .truncated = scratch.ids.size() > content.size()};
}

std::string Tokenizer::Pipeline::Behaviour() const {
  BehaviourWriter out;
  const BertOptions& bert = parts_.normalizer.options();
  out.Add("BertNormalizer");
  for (const bool flag :
       {bert.clean_text, bert.handle_chinese_chars, bert.strip_accents, bert.lowercase}) {
    out.Add(uint64_t{flag});
  }
  out.Add("BertPreTokenizer");
  const WordPieceOptions& model = parts_.model.options();
  out.Add("WordPiece");
  out.Add(uint64_t{parts_.model.unknown_id()});
  out.Add(model.continuing_prefix);
  out.Add(uint64_t{model.max_characters});
  std::vector<const AddedToken*> added;
  for (const AddedToken& token : parts_.added_tokens) added.push_back(&token);
  std::sort(added.begin(), added.end(),
            [](const AddedToken* a, const AddedToken* b) { return a->content < b->content; });
  for (const AddedToken* token : added) {
    out.Add(token->content);
    out.Add(uint64_t{token->id});
    for (const bool flag :
         {token->single_word, token->lstrip, token->rstrip, token->normalized, token->special}) {
      out.Add(uint64_t{flag});
    }
  }
  for (const auto* ids : {&parts_.prefix, &parts_.suffix}) {
    out.Add(uint64_t{ids->size()});
    for (const uint32_t id : *ids) out.Add(uint64_t{id});
  }
  for (uint32_t id = 0; id < vocabulary().size(); ++id) {
    out.Add(vocabulary().Token(id).value_or(""));
  }
  return out.Take();
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

std::optional<std::string_view> Tokenizer::Token(uint32_t id) const {
  return pipeline_->vocabulary().Token(id);
}

size_t Tokenizer::vocabulary_size() const { return pipeline_->vocabulary().size(); }

std::string Tokenizer::Behaviour() const { return pipeline_->Behaviour(); }

}  // namespace sprat
