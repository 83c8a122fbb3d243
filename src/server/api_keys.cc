#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

namespace sprat::server {
namespace {

constexpr std::string_view kScheme{"bearer"};

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace{" \t\r"};
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

template <typename Digest>
Digest Sha256(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

Result<ApiKeys> ApiKeys::Read(const std::filesystem::path& file) {
  std::error_code status_error;
  if (!std::filesystem::exists(file, status_error)) {
    return Error(ErrorCode::kNotFound, file.string() + ": no such file of API keys");
  }
  constexpr size_t kLimitBytes{16 << 20};
  std::ifstream stream(file);
  std::string text;
  char part[4096];
  do {
    stream.read(part, sizeof part);  // of a directory it sets badbit, where an iterator would throw
    text.append(part, static_cast<size_t>(stream.gcount()));
  } while (stream.good() && text.size() <= kLimitBytes);
  if (!stream.eof() || stream.bad()) {
    return Error(ErrorCode::kIo, file.string() + ": cannot read the API keys, expected a file of " +
                                     "at most " + std::to_string(kLimitBytes) + " bytes");
  }
  Result<ApiKeys> keys = Parse(text);
  if (!keys.ok()) return std::move(keys.error()).In(file.string());
  return keys;
}

Result<ApiKeys> ApiKeys::Parse(std::string_view text) {
  ApiKeys keys;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view key = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (key.empty() || key.front() == '#') continue;
    const bool sendable =
        std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; });
    if (!sendable) {
      return Error(ErrorCode::kInvalidArgument,
                   "line " + std::to_string(line) +
                       ": a key must be visible ASCII without spaces, or no client can send it");
    }
    keys.digests_.push_back(Sha256<Digest>(key));
  }
  if (keys.digests_.empty()) {
    return Error(ErrorCode::kInvalidArgument, "no key: a server without keys needs no key file");
  }
  return keys;
}

bool ApiKeys::Allow(std::string_view authorization) const {
  authorization = Trim(authorization);
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  if (authorization.size() <= kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                  [&](char b, char a) { return same(a, b); }) ||
      authorization[kScheme.size()] != ' ') {
    return false;
  }
  const Digest given = Sha256<Digest>(Trim(authorization.substr(kScheme.size())));
  bool allowed = false;
  for (const Digest& digest : digests_) {
    allowed |= CRYPTO_memcmp(digest.data(), given.data(), digest.size()) == 0;
  }
  return allowed;
}

}  // namespace sprat::server
