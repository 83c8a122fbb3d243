#include "tokenizer/decoder.h"

#include <algorithm>
#include <charconv>

#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr std::string_view kReplacementCharacter{"\xEF\xBF\xBD"};

using Tokens = std::vector<std::string>;

void ReplaceAll(std::string_view from, std::string_view to, std::string& text) {
  if (from.empty()) return;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Source: cleanup of the WordPiece decoder, in its order.
void CleanUp(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kPairs) ReplaceAll(from, to, text);
}

// `bytes` with U+FFFD for each longest part that starts a character and cannot end it (the Unicode
// Standard, section 3.9, "U+FFFD substitution of maximal subparts").
std::string Lossy(std::string_view bytes) {
  std::string text;
  while (const auto invalid = FindInvalidUtf8(bytes)) {
    text += bytes.substr(0, *invalid);
    text += kReplacementCharacter;
    bytes.remove_prefix(*invalid);
    // The longest part that some continuation could complete.
    size_t part = 1;
    for (size_t n = 2; n <= std::min<size_t>(3, bytes.size()); ++n) {
      const auto completes = [&](std::string_view tail) {
        return !FindInvalidUtf8(std::string(bytes.substr(0, n)).append(tail)).has_value();
      };
      if (completes("\x80") || completes("\xBF") || completes("\x80\x80") ||
          completes("\xBF\xBF")) {
        part = n;
      }
    }
    bytes.remove_prefix(part);
  }
  text += bytes;
  return text;
}

// The byte that a token "<0x41>" stands for.
std::optional<char> FallbackByte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

// The byte that a character of byte_level.h stands for.
std::optional<char> ByteOf(char32_t c) {
  unsigned byte = c;  // most stand for themselves
  if (c >= 0x100 && c <= 0x120) byte = c - 0x100;
  if (c >= 0x121 && c <= 0x142) byte = c - 0x121 + 0x7F;
  if (c == 0x143) byte = 0xAD;
  const auto narrow = static_cast<unsigned char>(byte);
  if (narrow != byte || ByteLevelCharacter(narrow) != c) return std::nullopt;
  return static_cast<char>(narrow);
}

// One step, in place on the tokens. Each stands for decode_chain of a decoder of the reference.
class Apply {
 public:
  explicit Apply(Tokens& tokens) : tokens_(tokens) {}

  void operator()(const WordPieceDecoder& step) const {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      std::string& token = tokens_[i];
      if (i > 0) {
        if (token.starts_with(step.prefix)) {
          token.erase(0, step.prefix.size());
        } else {
          token.insert(0, 1, ' ');
        }
      }
      if (step.cleanup) CleanUp(token);
    }
  }

  void operator()(const MetaspaceDecoder& step) const {
    std::string replacement;
    AppendUtf8(step.replacement, replacement);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      ReplaceAll(replacement, i == 0 && step.drops_first ? "" : " ", tokens_[i]);
    }
  }

  // A token with a character that stands for no byte is taken as it is.
  void operator()(const ByteLevelDecoder&) const {
    std::string bytes;
    for (const std::string& token : tokens_) {
      const size_t before = bytes.size();
      for (size_t at = 0; at < token.size();) {
        const Utf8Character c = DecodeUtf8(token.data() + at);
        const std::optional<char> byte = ByteOf(c.code_point);
        if (!byte) {
          bytes.resize(before);
          bytes += token;
          break;
        }
        bytes += *byte;
        at += c.size_bytes;
      }
    }
    tokens_.assign(1, Lossy(bytes));
  }

  void operator()(const SuffixDecoder& step) const {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      ReplaceAll(step.suffix, i + 1 == tokens_.size() ? "" : " ", tokens_[i]);
    }
  }

  // Bytes in a row that are no UTF-8 become a U+FFFD each.
  void operator()(const ByteFallbackDecoder&) const {
    Tokens decoded;
    std::string bytes;
    const auto flush = [&] {
      if (FindInvalidUtf8(bytes)) {
        decoded.insert(decoded.end(), bytes.size(), std::string(kReplacementCharacter));
      } else if (!bytes.empty()) {
        decoded.push_back(bytes);
      }
      bytes.clear();
    };
    for (std::string& token : tokens_) {
      if (const auto byte = FallbackByte(token)) {
        bytes += *byte;
        continue;
      }
      flush();
      decoded.push_back(std::move(token));
    }
    flush();
    tokens_ = std::move(decoded);
  }

  void operator()(const FuseDecoder&) const {
    std::string all;
    for (const std::string& token : tokens_) all += token;
    tokens_.assign(1, all);
  }

  void operator()(const StripDecoder& step) const {
    std::string content;
    AppendUtf8(step.content, content);
    for (std::string& token : tokens_) {
      for (size_t n = 0; n < step.start && token.starts_with(content); ++n) {
        token.erase(0, content.size());
      }
      for (size_t n = 0; n < step.stop && token.ends_with(content); ++n) {
        token.resize(token.size() - content.size());
      }
    }
  }

  void operator()(const Replace& step) const {
    Regex::Scratch retries;
    for (std::string& token : tokens_) {
      std::string replaced;
      size_t at = 0;
      while (const auto match = step.pattern.Find(token, at, retries)) {
        replaced.append(token, at, match->begin - at).append(step.content);
        at = match->end;
      }
      token = replaced.append(token, at);
    }
  }

 private:
  Tokens& tokens_;
};

}  // namespace

Result<std::string> Decoder::Decode(std::vector<std::string> tokens) const {
  if (unsupported_) return *unsupported_;
  if (steps_) {
    for (const Step& step : *steps_) std::visit(Apply(tokens), step);
  }
  std::string text;
  for (const std::string& token : tokens) {
    if (!steps_ && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

}  // namespace sprat
