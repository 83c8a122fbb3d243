// tokenizer_speed DIRECTORY WARM TEXTS: what bench/compare_tokenizer.py runs.
//
// Opens the tokenizer in DIRECTORY, tokenizes the texts of the file WARM untimed, then those of
// TEXTS twice, timed, on one thread. A file holds, for each text, its length in bytes (u32,
// little-endian) and its bytes. Prints one JSON object: seconds to open, of the first and of the
// second pass, and the number of ids of a pass.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string ReadAll(const char* path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

std::vector<std::string_view> Texts(std::string_view bytes) {
  std::vector<std::string_view> texts;
  while (bytes.size() >= sizeof(uint32_t)) {
    uint32_t size_bytes;
    std::memcpy(&size_bytes, bytes.data(), sizeof size_bytes);
    texts.push_back(bytes.substr(sizeof size_bytes, size_bytes));
    bytes.remove_prefix(sizeof size_bytes + texts.back().size());
  }
  return texts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string warm_bytes = ReadAll(argv[2]);
  const std::string bytes = ReadAll(argv[3]);
  const std::vector<std::string_view> texts = Texts(bytes);
  double start = CpuSeconds();
  auto tokenizer = sprat::Tokenizer::Open(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message().c_str());
    return 1;
  }
  const double open_seconds = CpuSeconds() - start;
  std::vector<uint32_t> ids;
  size_t count = 0;
  const auto tokenize = [&](std::string_view text) {
    ids.clear();
    const auto made = tokenizer.value().Tokenize(text, {.add_special_tokens = false}, ids);
    count += made.ok() ? made.value().tokens : 0;
  };
  for (const std::string_view text : Texts(warm_bytes)) tokenize(text);
  double seconds[2];
  for (double& pass : seconds) {
    count = 0;
    start = CpuSeconds();
    for (const std::string_view text : texts) tokenize(text);
    pass = CpuSeconds() - start;
  }
  std::printf("{\"open\": %.6f, \"first\": %.9f, \"again\": %.9f, \"ids\": %zu}\n", open_seconds,
              seconds[0], seconds[1], count);
  return 0;
}
