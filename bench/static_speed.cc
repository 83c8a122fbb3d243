// static_speed DIRECTORY THREADS TEXTS: what bench/compare_static.py runs.
//
// Opens the model in DIRECTORY, embeds one text, then some one by one, then all in one call, twice.
// TEXTS holds, for each text, its length in bytes (u32, little-endian) and its bytes. Prints one
// JSON object: seconds to open and to the first vector, microseconds of one text (the median),
// seconds of all in one call (the better of two), and the sum of all values.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/engine.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSingles{5000};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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

double MedianMicroseconds(const sprat::Engine& engine, std::span<const std::string_view> texts) {
  std::vector<double> times;
  sprat::Embeddings row;
  for (const std::string_view text : texts) {
    const Clock::time_point start = Clock::now();
    if (!engine.EmbedInto({&text, 1}, {}, row).ok()) std::exit(1);
    times.push_back(SecondsSince(start) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::stringstream content;
  content << std::ifstream(argv[3], std::ios::binary).rdbuf();
  const std::string bytes = content.str();
  const std::vector<std::string_view> texts = Texts(bytes);
  if (texts.empty()) return 2;

  const Clock::time_point start = Clock::now();
  auto engine = sprat::Engine::Open(argv[1], {.threads = std::strtoul(argv[2], nullptr, 10)});
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.error().message().c_str());
    return 1;
  }
  const double open_seconds = SecondsSince(start);
  if (!engine.value().EmbedOne(texts[0]).ok()) return 1;
  const double first_seconds = SecondsSince(start);

  const size_t singles = std::min(kSingles, texts.size());
  const double single_us = MedianMicroseconds(engine.value(), {texts.data(), singles});
  double all_seconds = 1e9, sum = 0;
  for (int round = 0; round < 2; ++round) {
    const Clock::time_point begin = Clock::now();
    const auto rows = engine.value().Embed(texts);
    all_seconds = std::min(all_seconds, SecondsSince(begin));
    if (!rows.ok()) return 1;
    sum = std::accumulate(rows.value().values.begin(), rows.value().values.end(), 0.0);
  }
  std::printf(
      "{\"open\": %.6f, \"first\": %.6f, \"single_us\": %.3f, \"all\": %.6f, \"sum\": %.6f}\n",
      open_seconds, first_seconds, single_us, all_seconds, sum);
  return 0;
}
