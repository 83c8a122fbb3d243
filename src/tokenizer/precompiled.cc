#include "tokenizer/precompiled.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tokenizer/grapheme.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

constexpr size_t kShortCluster{6};  // bytes; shorter ones are looked up whole

// A unit of darts-clone's double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

// The bytes that base64 stands for; nullopt if it is not base64.
std::optional<std::string> DecodeBase64(std::string_view text) {
  constexpr std::string_view kAlphabet{
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
  std::array<int, 256> value;
  value.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    value[ByteAt(kAlphabet.data(), i)] = static_cast<int>(i);
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int digit = value[ByteAt(text.data(), i)];
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

}  // namespace

Result<Precompiled> Precompiled::Parse(std::string_view charsmap) {
  const std::optional<std::string> bytes = DecodeBase64(charsmap);
  if (!bytes) return Error(ErrorCode::kCorrupt, "precompiled_charsmap is not base64");
  uint32_t trie_bytes = 0;
  if (bytes->size() >= sizeof trie_bytes)
    std::memcpy(&trie_bytes, bytes->data(), sizeof trie_bytes);
  if (trie_bytes < 4 || trie_bytes % 4 != 0 || trie_bytes > bytes->size() - sizeof trie_bytes) {
    return Error(ErrorCode::kCorrupt, "precompiled_charsmap: a trie of " +
                                          std::to_string(trie_bytes) + " bytes does not fit its " +
                                          std::to_string(bytes->size()) + " bytes");
  }
  Precompiled made;
  made.trie_.resize(trie_bytes / 4);
  std::memcpy(made.trie_.data(), bytes->data() + sizeof trie_bytes, trie_bytes);
  made.replacements_ = bytes->substr(sizeof trie_bytes + trie_bytes);
  if (FindInvalidUtf8(made.replacements_)) {
    return Error(ErrorCode::kCorrupt, "precompiled_charsmap: the replacements are not UTF-8");
  }
  for (int c = 0; c < 128; ++c) {
    const char character = static_cast<char>(c);
    made.ascii_changes_.push_back(made.Find({&character, 1}).has_value());
  }
  return made;
}

std::optional<std::string_view> Precompiled::Find(std::string_view text) const {
  size_t place = Offset(trie_[0]);
  for (const char byte : text) {
    const auto label = static_cast<unsigned char>(byte);
    if (label == 0) break;
    place ^= label;
    if (place >= trie_.size() || Label(trie_[place]) != label) return std::nullopt;
    const uint32_t unit = trie_[place];
    place ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (place >= trie_.size()) return std::nullopt;
    const size_t start = Value(trie_[place]);
    if (start > replacements_.size()) return std::nullopt;
    if (start < replacements_.size() && (ByteAt(replacements_.data(), start) & 0xC0) == 0x80) {
      return std::nullopt;  // inside a character: a broken file
    }
    const size_t end = std::min(replacements_.find('\0', start), replacements_.size());
    return std::string_view(replacements_).substr(start, end - start);
  }
  return std::nullopt;
}

void Precompiled::NormalizeCluster(std::string_view cluster, std::string& out) const {
  if (cluster.size() < kShortCluster) {
    if (const auto whole = Find(cluster)) {
      out += *whole;
      return;
    }
  }
  while (!cluster.empty()) {
    const std::string_view character = cluster.substr(0, Utf8Length(ByteAt(cluster.data(), 0)));
    out += Find(character).value_or(character);
    cluster.remove_prefix(character.size());
  }
}

void Precompiled::Normalize(std::string_view text, std::string& out) const {
  while (!text.empty()) {
    // An ASCII character before another is a cluster of its own, but for CR LF.
    const unsigned char first = ByteAt(text.data(), 0);
    const bool alone =
        first < 0x80 && first != '\r' && (text.size() == 1 || ByteAt(text.data(), 1) < 0x80);
    if (alone && !ascii_changes_[first]) {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    const size_t length = GraphemeLength(text);
    NormalizeCluster(text.substr(0, length), out);
    text.remove_prefix(length);
  }
}

}  // namespace sprat
