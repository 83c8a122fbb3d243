#include "tokenizer/behaviour.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <variant>

namespace sprat {
namespace {

// A sequence of fields. Texts carry their lengths, so that no two sequences look the same.
class Writer {
 public:
  void Text(std::string_view text) {
    fmt::format_to(std::back_inserter(out_), "{}:{};", text.size(), text);
  }
  void Number(uint64_t number) { fmt::format_to(std::back_inserter(out_), "{};", number); }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

struct NormalizerFields {
  Writer& out;

  void operator()(const BertNormalizer& step) const {
    const BertOptions& bert = step.options();
    out.Text("BertNormalizer");
    for (const bool flag :
         {bert.clean_text, bert.handle_chinese_chars, bert.strip_accents, bert.lowercase}) {
      out.Number(flag);
    }
  }
  void operator()(const Precompiled& step) const {
    out.Text("Precompiled");
    out.Number(step.trie().size());
    for (const uint32_t unit : step.trie()) out.Number(unit);
    out.Text(step.replacements());
  }
  void operator()(const UnicodeForm& form) const {
    out.Text(form.compatible ? (form.compose ? "NFKC" : "NFKD") : (form.compose ? "NFC" : "NFD"));
  }
  void operator()(Lowercase) const { out.Text("Lowercase"); }
  void operator()(StripAccents) const { out.Text("StripAccents"); }
  void operator()(Nmt) const { out.Text("Nmt"); }
  void operator()(ByteLevelNormalizer) const { out.Text("ByteLevel"); }
  void operator()(const Strip& step) const {
    out.Text("Strip");
    out.Number(step.left);
    out.Number(step.right);
  }
  void operator()(const Prepend& step) const {
    out.Text("Prepend");
    out.Text(step.text);
  }
  void operator()(const Replace& step) const {
    out.Text("Replace");
    out.Text(step.pattern_text);
    out.Text(step.content);
  }
};

struct PreTokenizerFields {
  Writer& out;

  void operator()(const CharacterSplit& step) const {
    out.Text("CharacterSplit");
    out.Number(static_cast<uint64_t>(step.kind));
    out.Number(static_cast<uint64_t>(step.behavior));
    out.Number(step.one);
  }
  void operator()(const RegexSplit& step) const {
    out.Text("RegexSplit");
    out.Text(step.pattern_text);
    out.Number(static_cast<uint64_t>(step.behavior));
    out.Number(step.inverted);
  }
  void operator()(const Metaspace& step) const {
    out.Text("Metaspace");
    out.Number(step.replacement);
    out.Number(static_cast<uint64_t>(step.prepend));
    out.Number(step.split);
  }
  void operator()(PrefixSpace) const { out.Text("PrefixSpace"); }
  void operator()(BytesToCharacters) const { out.Text("BytesToCharacters"); }
  void operator()(const FixedLength& step) const {
    out.Text("FixedLength");
    out.Number(step.length);
  }
};

struct ModelFields {
  Writer& out;

  void operator()(const WordPiece& model) const {
    out.Text("WordPiece");
    out.Number(model.unknown_id());
    out.Text(model.options().continuing_prefix);
    out.Number(model.options().max_characters);
  }
  void operator()(const Unigram& model) const {
    out.Text("Unigram");
    out.Number(model.unknown_id());
    out.Number(model.byte_fallback());
    out.Number(model.scores().size());
    for (const double score : model.scores()) out.Number(std::bit_cast<uint64_t>(score));
  }
  void operator()(const Bpe& model) const {
    const BpeOptions& options = model.options();
    out.Text("BPE");
    out.Text(options.unknown_token.value_or(""));
    out.Text(options.continuing_prefix);
    out.Text(options.end_of_word_suffix);
    for (const bool flag : {options.unknown_token.has_value(), options.fuse_unknown,
                            options.byte_fallback, options.ignore_merges}) {
      out.Number(flag);
    }
    const std::vector<Bpe::Merge> merges = model.SortedMerges();
    out.Number(merges.size());
    for (const Bpe::Merge& merge : merges) {  // the ranks' order counts, not their values
      out.Number(merge.pair);
      out.Number(merge.id);
    }
  }
};

void WriteAddedTokens(const std::vector<AddedToken>& tokens, Writer& out) {
  std::vector<const AddedToken*> sorted;
  for (const AddedToken& token : tokens) sorted.push_back(&token);
  std::sort(sorted.begin(), sorted.end(),
            [](const AddedToken* a, const AddedToken* b) { return a->content < b->content; });
  out.Number(sorted.size());
  for (const AddedToken* token : sorted) {
    out.Text(token->content);
    out.Number(token->id);
    for (const bool flag :
         {token->single_word, token->lstrip, token->rstrip, token->normalized, token->special}) {
      out.Number(flag);
    }
  }
}

}  // namespace

std::string DescribeBehaviour(const TokenizerParts& parts) {
  Writer out;
  out.Number(parts.normalizer.steps().size());
  for (const auto& step : parts.normalizer.steps()) std::visit(NormalizerFields{out}, step);
  out.Number(parts.pre_tokenizer.steps().size());
  for (const auto& step : parts.pre_tokenizer.steps()) std::visit(PreTokenizerFields{out}, step);
  std::visit(ModelFields{out}, parts.model);
  WriteAddedTokens(parts.added_tokens, out);
  for (const auto* ids : {&parts.prefix, &parts.suffix}) {
    out.Number(ids->size());
    for (const uint32_t id : *ids) out.Number(id);
  }
  out.Number(parts.vocabulary.size());
  for (uint32_t id = 0; id < parts.vocabulary.size(); ++id) {
    out.Text(parts.vocabulary.Token(id).value_or(""));
  }
  return out.Take();
}

}  // namespace sprat
