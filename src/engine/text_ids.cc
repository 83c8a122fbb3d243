#include "engine/text_ids.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sprat {
namespace {

// Fewer bytes than this are tokenized before another thread could be woken.
constexpr size_t kBytesWorthAThread{16 << 10};

// The length in bytes of the first `characters` code points of `text`, UTF-8 or not.
size_t BytesOfCharacters(std::string_view text, size_t characters) {
  if (text.size() <= characters) return text.size();
  size_t bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<uint8_t>(text[bytes]) & 0xc0) != 0x80;
    if (starts && characters-- == 0) break;
  }
  return bytes;
}

}  // namespace

void TextWindow::Start(size_t count) {
  batch.clear();
  lengths.assign(count, 0);
}

void TextWindow::Finish() {
  batch.offsets.resize(1);
  for (const size_t length : lengths) batch.offsets.push_back(batch.offsets.back() + length);
}

Result<TokenizedLength> TextIds::Append(std::string_view text, const TextForm& form,
                                        std::string& prompted, std::vector<uint32_t>& ids) const {
  if (!form.prompt.empty()) {
    prompted.assign(form.prompt).append(text);
    text = prompted;
  }
  const bool limited = max_sequence_ != std::numeric_limits<size_t>::max();
  const size_t before = ids.size();
  Result<TokenizedLength> length = Append(text, limited ? max_sequence_ : 0, ids);
  if (!length.ok() || form.truncate || !length.value().truncated) return length;
  ids.resize(before);
  return TooLong(text);
}

// Says how much of the text counts and how much there is.
Error TextIds::TooLong(std::string_view text) const {
  const std::string limit = ", expected at most the model's maximum of ";
  std::vector<uint32_t> all;
  Result<TokenizedLength> whole = Tokenize(text, 0, all);
  if (!whole.ok()) return std::move(whole.error());
  if (whole.value().tokens > max_sequence_) {
    return Error(ErrorCode::kTooLong, std::to_string(whole.value().tokens) + " tokens" + limit +
                                          std::to_string(max_sequence_));
  }
  return Error(ErrorCode::kTooLong,
               "more characters than are read" + limit + std::to_string(rule_.max_characters));
}

Result<TokenizedLength> TextIds::Tokenize(std::string_view text, size_t max_tokens,
                                          std::vector<uint32_t>& ids) const {
  return tokenizer_.Tokenize(text,
                             {.max_tokens = max_tokens,
                              .add_special_tokens = rule_.add_special_tokens,
                              .parse_special_tokens = parse_special_tokens_},
                             ids);
}

Result<TokenizedLength> TextIds::Append(std::string_view text, size_t max_tokens,
                                        std::vector<uint32_t>& ids) const {
  size_t kept_bytes = text.size();
  if (max_tokens != 0 && rule_.max_characters != 0) {
    kept_bytes = BytesOfCharacters(text, rule_.max_characters);
    if (kept_bytes < text.size()) {
      if (const auto invalid = FindInvalidUtf8(text)) {
        return Error(ErrorCode::kInvalidArgument,
                     "the text is not UTF-8 at byte " + std::to_string(*invalid));
      }
    }
  }
  const size_t before = ids.size();
  Result<TokenizedLength> length = Tokenize(text.substr(0, kept_bytes), max_tokens, ids);
  if (!length.ok()) return length;
  if (kept_bytes < text.size()) length.value().truncated = true;
  if (rule_.dropped_id) {
    const auto first = ids.begin() + static_cast<ptrdiff_t>(before);
    ids.erase(std::remove(first, ids.end(), *rule_.dropped_id), ids.end());
    length.value().tokens = ids.size() - before;
  }
  return length;
}

size_t TextIds::WindowSize(std::span<const std::string_view> texts, size_t prompt_bytes) const {
  size_t count = 0;
  for (size_t tokens = 0; count < std::min(texts.size(), kWindowTexts); ++count) {
    // A token is about a byte of the text or more; and there are special ones.
    tokens += std::min(prompt_bytes + texts[count].size() + 2, max_sequence_);
    if (count > 0 && tokens > kWindowTokens) break;
  }
  return count;
}

bool TextIds::WorthThreads(std::span<const std::string_view> texts) {
  if (texts.size() < 2) return false;
  size_t bytes = 0;
  for (const std::string_view text : texts) {
    bytes += text.size();
    if (bytes >= kBytesWorthAThread) return true;
  }
  return false;
}

Result<void> TextIds::Fill(std::span<const std::string_view> texts, size_t first, size_t count,
                           const TextForm& form, ThreadPool* pool, TextWindow& window,
                           Embeddings& out) const {
  window.Start(count);
  const size_t threads = pool == nullptr ? 1 : pool->size();
  if (window.parts.size() < threads) window.parts.resize(threads);
  const auto tokenize_share = [&](size_t rank) {
    TextWindow::Part& part = window.parts[rank];
    std::vector<uint32_t>& ids = rank == 0 ? window.batch.tokens : part.ids;
    part.done = {};
    const Share share = ShareOf(count, rank, threads);
    for (size_t i = share.begin; i < share.end; ++i) {
      Result<TokenizedLength> length = Append(texts[first + i], form, part.prompted, ids);
      if (!length.ok()) {
        part.done = std::move(length.error()).In("text " + std::to_string(first + i));
        return;
      }
      window.lengths[i] = length.value().tokens;
      out.tokens[first + i] = static_cast<uint32_t>(length.value().tokens);
      out.truncated[first + i] = length.value().truncated ? 1 : 0;
    }
  };
  if (threads == 1) {
    tokenize_share(0);
  } else {
    for (TextWindow::Part& part : window.parts) part.ids.clear();
    pool->Run([&](size_t rank, Team&) { tokenize_share(rank); });
  }
  for (size_t rank = 0; rank < threads; ++rank) {
    TextWindow::Part& part = window.parts[rank];
    if (!part.done.ok()) return std::move(part.done.error());
    if (rank > 0) {
      window.batch.tokens.insert(window.batch.tokens.end(), part.ids.begin(), part.ids.end());
    }
  }
  window.Finish();
  return {};
}

}  // namespace sprat
