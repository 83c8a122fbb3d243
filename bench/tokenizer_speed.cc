// tokenizer_speed DIRECTORY WARM TEXTS [THREADS]: what bench/compare_tokenizer.py runs.
//
// Opens the tokenizer in DIRECTORY, tokenizes the texts of the file WARM untimed, then those of
// TEXTS twice, timed: on one thread in its CPU time, on several, which share the texts, in real
// time. A file holds, for each text, its length in bytes (u32, little-endian) and its bytes. Prints
// one JSON object: seconds to open, of the first and of the second pass, and the number of ids of a
// pass.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
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

// Appends the ids of `texts` to `ids`.
void TokenizeAll(const sprat::Tokenizer& tokenizer, std::span<const std::string_view> texts,
                 std::vector<uint32_t>& ids) {
  for (const std::string_view text : texts) {
    if (!tokenizer.Tokenize(text, {.add_special_tokens = false}, ids).ok()) std::exit(1);
  }
}

// Tokenizes on `threads` threads, each a part of the texts; returns the number of ids.
size_t TokenizeShared(const sprat::Tokenizer& tokenizer, std::span<const std::string_view> texts,
                      size_t threads) {
  std::vector<std::vector<uint32_t>> ids(threads);
  const auto part = [&](size_t rank) {
    const size_t begin = texts.size() * rank / threads, end = texts.size() * (rank + 1) / threads;
    TokenizeAll(tokenizer, texts.subspan(begin, end - begin), ids[rank]);
  };
  std::vector<std::thread> others;
  for (size_t rank = 1; rank < threads; ++rank) others.emplace_back(part, rank);
  part(0);
  for (std::thread& thread : others) thread.join();
  size_t count = 0;
  for (const auto& some : ids) count += some.size();
  return count;
}

double RealSeconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const size_t threads = argc == 5 ? std::strtoul(argv[4], nullptr, 10) : 1;
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
    start = threads > 1 ? RealSeconds() : CpuSeconds();
    if (threads > 1) {
      count = TokenizeShared(tokenizer.value(), texts, threads);
    } else {
      for (const std::string_view text : texts) tokenize(text);
    }
    pass = (threads > 1 ? RealSeconds() : CpuSeconds()) - start;
  }
  std::printf("{\"open\": %.6f, \"first\": %.9f, \"again\": %.9f, \"ids\": %zu}\n", open_seconds,
              seconds[0], seconds[1], count);
  return 0;
}
