#include "tokenizer/encoder.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "tokenizer/chunks.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

bool IsSplit(const PreTokenizer::Step& step, CharacterSplit::Class kind, SplitBehavior behavior) {
  const auto* split = std::get_if<CharacterSplit>(&step);
  return split != nullptr && split->kind == kind && split->behavior == behavior;
}

// Whether words stay the same when their text is cut at white space before the normalizer.
bool LooksAcrossWords(const Normalizer::Step& step) {
  return std::holds_alternative<Prepend>(step) || std::holds_alternative<Replace>(step) ||
         std::holds_alternative<ByteLevelNormalizer>(step);
}

bool AsksForTheFirstWord(const PreTokenizer::Step& step) {
  const auto* metaspace = std::get_if<Metaspace>(&step);
  return metaspace != nullptr && metaspace->prepend == Metaspace::Prepend::kFirst;
}

bool IsWhitespace(char32_t c) { return (RecordOf(c).flags & kWhitespace) != 0; }

// Whether `chunk` could join a separator beside it in one grapheme cluster.
bool JoinsItsNeighbours(std::string_view chunk) {
  const GraphemeClass first = RecordOf(DecodeUtf8(chunk.data()).code_point).grapheme;
  const size_t last_character = PreviousCharacter(chunk, chunk.size());
  const GraphemeClass last =
      RecordOf(DecodeUtf8(chunk.data() + last_character).code_point).grapheme;
  return first == GraphemeClass::kExtend || first == GraphemeClass::kIndicExtend ||
         first == GraphemeClass::kIndicLinker || first == GraphemeClass::kSpacingMark ||
         first == GraphemeClass::kZeroWidthJoiner || last == GraphemeClass::kPrepend;
}

}  // namespace

Encoder::Encoder(const TokenizerParts& parts, const AddedTokens& normalized_added)
    : parts_(parts), normalized_added_(normalized_added), path_(ChoosePath()) {
  if (path_ == Path::kChunks) FindPlainBytes();
  if (path_ == Path::kBert)
    bert_table_.emplace(*std::get_if<BertNormalizer>(&parts_.normalizer.steps()[0]));
}

// Whether each separator normalises to white space and nothing else.
bool Encoder::SeparatorsStaySpace() const {
  NormalizerScratch scratch;
  std::string normalized;
  for (const std::string_view separator : {" ", "\t", "\n", "\r", "\r\n"}) {
    static_cast<void>(parts_.normalizer.Normalize(separator, scratch, normalized));
    if (normalized.empty()) return false;
    for (size_t at = 0; at < normalized.size();) {
      const Utf8Character next = DecodeUtf8(normalized.data() + at);
      if (!IsWhitespace(next.code_point)) return false;
      at += next.size_bytes;
    }
  }
  return true;
}

Encoder::Path Encoder::ChoosePath() const {
  const auto& steps = parts_.normalizer.steps();
  const auto& splits = parts_.pre_tokenizer.steps();
  const bool at_space =
      !splits.empty() &&
      IsSplit(splits[0], CharacterSplit::Class::kWhitespace, SplitBehavior::kRemoved) &&
      std::none_of(splits.begin(), splits.end(), AsksForTheFirstWord) &&
      std::none_of(steps.begin(), steps.end(), LooksAcrossWords);
  if (!at_space || !SeparatorsStaySpace()) return Path::kWhole;
  const bool bert =
      normalized_added_.empty() && std::holds_alternative<WordPiece>(parts_.model) &&
      steps.size() == 1 && std::holds_alternative<BertNormalizer>(steps[0]) && splits.size() == 2 &&
      IsSplit(splits[1], CharacterSplit::Class::kPunctuation, SplitBehavior::kIsolated);
  if (bert) return Path::kBert;
  for (const AddedToken& token : normalized_added_.tokens()) {
    if (IsWhitespace(DecodeUtf8(token.content.data()).code_point)) return Path::kWhole;
  }
  return Path::kChunks;
}

// Only for what SentencePiece models have: Precompiled, words at white space, Metaspace.
void Encoder::FindPlainBytes() {
  const auto& steps = parts_.normalizer.steps();
  const auto& splits = parts_.pre_tokenizer.steps();
  const Metaspace* metaspace = splits.size() == 2 ? std::get_if<Metaspace>(&splits[1]) : nullptr;
  const bool known = metaspace != nullptr && metaspace->prepend == Metaspace::Prepend::kAlways &&
                     metaspace->replacement >= 0x80 && steps.size() <= 1 &&
                     std::all_of(steps.begin(), steps.end(), [](const Normalizer::Step& step) {
                       return std::holds_alternative<Precompiled>(step);
                     });
  if (!known) return;
  AppendUtf8(metaspace->replacement, plain_prefix_);
  NormalizerScratch scratch;
  std::string normalized;
  for (unsigned char c = 1; c < 0x80; ++c) {
    const char byte = static_cast<char>(c);
    const std::string_view text(&byte, 1);
    static_cast<void>(parts_.normalizer.Normalize(text, scratch, normalized));
    plain_[c] = normalized == text && !IsWhitespace(c) &&
                (normalized_added_.empty() || !normalized_added_.MayStartIn(text));
  }
}

void Encoder::Encode(std::string_view text, bool at_start, const EncodeOptions& options,
                     EncoderScratch& scratch) const {
  const size_t before = scratch.ids.size();
  switch (path_) {
    case Path::kBert:
      return EncodeBert(text, options, scratch);
    case Path::kChunks:
      if (EncodeChunks(text, options, scratch)) return;
      scratch.ids.Truncate(before);
      break;
    case Path::kWhole:
      break;
  }
  EncodeWhole(text, at_start, options, scratch);
}

void Encoder::EncodeBert(std::string_view text, const EncodeOptions& options,
                         EncoderScratch& scratch) const {
  const auto& normalizer = *std::get_if<BertNormalizer>(&parts_.normalizer.steps()[0]);
  const auto& model = *std::get_if<WordPiece>(&parts_.model);
  const auto encode = [&](std::string_view chunk, IdBuffer& ids) {
    BertWords words(model, options.limit, scratch.word, ids);
    AddChunk(chunk, normalizer, *bert_table_, scratch.normalizer.marks, words);
    // What was cut short by the limit must not be remembered.
    return !words.full();
  };
  ChunkWalk<Separators::kSpaceAndPunctuation, decltype(encode)> walk(encode, scratch.chunk_cache,
                                                                     scratch.ids);
  static_cast<void>(walk.Run(text, options.limit));
}

bool Encoder::EncodeChunks(std::string_view text, const EncodeOptions& options,
                           EncoderScratch& scratch) const {
  const auto encode = [&](std::string_view chunk, IdBuffer&) {
    return EncodeChunk(chunk, scratch);
  };
  ChunkWalk<Separators::kSpace, decltype(encode)> walk(encode, scratch.chunk_cache, scratch.ids);
  return walk.Run(text, options.limit);
}

bool Encoder::EncodeChunk(std::string_view chunk, EncoderScratch& scratch) const {
  const auto is_plain = [this](char byte) { return plain_[static_cast<unsigned char>(byte)]; };
  if (std::all_of(chunk.begin(), chunk.end(), is_plain)) {
    scratch.word = plain_prefix_;
    scratch.word += chunk;
    AppendWord(parts_.model, scratch.word, scratch.model, scratch.ids);
    return true;
  }
  if (JoinsItsNeighbours(chunk)) return false;
  std::string& normalized = scratch.normalized;
  static_cast<void>(parts_.normalizer.Normalize(chunk, scratch.normalizer, normalized));
  if (!normalized_added_.empty() && normalized_added_.MayStartIn(normalized)) return false;
  if (normalized.empty()) return true;
  Words& words = scratch.words;
  words.text = normalized;
  words.words.assign(1, {0, normalized.size(), false});
  parts_.pre_tokenizer.Split(scratch.pre_tokenizer, words);
  for (const Words::Word& word : words.words) {
    AppendWord(parts_.model, words.Text(word), scratch.model, scratch.ids);
  }
  return true;
}

void Encoder::EncodeWhole(std::string_view text, bool at_start, const EncodeOptions& options,
                          EncoderScratch& scratch) const {
  const bool dropped = parts_.normalizer.Normalize(text, scratch.normalizer, scratch.normalized);
  const std::string& normalized = scratch.normalized;
  const bool starts = at_start && !dropped;
  normalized_added_.ForEachPart(
      normalized, options.parse_special_tokens,
      [&](std::string_view part) {
        EncodeNormalized(part, starts && part.data() == normalized.data(), options, scratch);
        return scratch.ids.size() <= options.limit;
      },
      [&](uint32_t id) {
        scratch.ids.Append(id);
        return scratch.ids.size() <= options.limit;
      });
}

void Encoder::EncodeNormalized(std::string_view text, bool first, const EncodeOptions& options,
                               EncoderScratch& scratch) const {
  Words& words = scratch.words;
  words.text = text;
  words.words.assign(1, {0, text.size(), first});
  parts_.pre_tokenizer.Split(scratch.pre_tokenizer, words);
  words.text.append(WordKey::kMaxBytes + 1, '\0');
  IdBuffer& ids = scratch.ids;
  for (const Words::Word& each : words.words) {
    if (ids.size() > options.limit) return;
    const std::string_view word = words.Text(each);
    if (word.size() > WordKey::kMaxBytes) {
      AppendWord(parts_.model, word, scratch.model, ids);
      continue;
    }
    const WordKey key = LoadWordKey(word.data(), word.size());
    WordCache::Entry& entry = scratch.word_cache.Slot(key);
    if (entry.key == key) {
      ids.Append({entry.ids, entry.count});
      continue;
    }
    const size_t before = ids.size();
    AppendWord(parts_.model, word, scratch.model, ids);
    const auto made = ids.ids().subspan(before);
    if (made.size() <= WordCache::kMaxIds) WordCache::Fill(entry, key, made);
  }
}

}  // namespace sprat
