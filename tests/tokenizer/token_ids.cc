// token_ids DIRECTORY [--no-special-tokens-in-text] < TEXTS > IDS
// token_ids DIRECTORY --decode|--decode-all < IDS > TEXTS
//
// Tokenizes texts as fast as they come, for comparison with other tokenizers.
//   TEXTS: for each text its length in bytes (u32, little-endian), then its bytes.
//   IDS: for each text the number of its ids (u32), then the ids (u32). No special tokens are
//   added. Decoding, --decode-all keeps special tokens.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace {

int Fail(const std::string& message) {
  std::fprintf(stderr, "token_ids: %s\n", message.c_str());
  return 1;
}

std::string ReadAll(std::FILE* file) {
  std::string bytes;
  char block[1 << 16];
  for (size_t n; (n = std::fread(block, 1, sizeof block, file)) > 0;) bytes.append(block, n);
  return bytes;
}

// The number at `at` in `bytes`; moves `at` behind it.
uint32_t TakeNumber(const std::string& bytes, size_t& at) {
  uint32_t number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  at += sizeof number;
  return number;
}

int Decode(const sprat::Tokenizer& tokenizer, bool skip_special_tokens) {
  const std::string input = ReadAll(stdin);
  std::vector<uint32_t> ids;
  for (size_t at = 0; at < input.size();) {
    ids.resize(TakeNumber(input, at));
    for (uint32_t& id : ids) id = TakeNumber(input, at);
    const auto text = tokenizer.Decode(ids, skip_special_tokens);
    if (!text.ok()) return Fail(text.error().message());
    const auto size_bytes = static_cast<uint32_t>(text.value().size());
    std::fwrite(&size_bytes, sizeof size_bytes, 1, stdout);
    std::fwrite(text.value().data(), 1, size_bytes, stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return Fail("usage: token_ids DIRECTORY [--no-special-tokens-in-text]");
  sprat::TokenizeOptions options{.add_special_tokens = false};
  if (argc > 2 && std::string_view(argv[2]) == "--no-special-tokens-in-text") {
    options.parse_special_tokens = false;
  }
  auto tokenizer = sprat::Tokenizer::Open(argv[1]);
  if (!tokenizer.ok()) return Fail(tokenizer.error().message());
  if (argc > 2 && std::string_view(argv[2]).starts_with("--decode")) {
    return Decode(tokenizer.value(), std::string_view(argv[2]) == "--decode");
  }
  const std::string input = ReadAll(stdin);
  std::vector<uint32_t> ids;
  for (size_t at = 0; at < input.size();) {
    const uint32_t size_bytes = TakeNumber(input, at);
    ids.assign(1, 0);
    const auto text = std::string_view(input).substr(at, size_bytes);
    const auto made = tokenizer.value().Tokenize(text, options, ids);
    if (!made.ok()) return Fail(made.error().message());
    ids[0] = static_cast<uint32_t>(made.value().tokens);
    std::fwrite(ids.data(), sizeof(uint32_t), ids.size(), stdout);
    at += size_bytes;
  }
  return 0;
}
