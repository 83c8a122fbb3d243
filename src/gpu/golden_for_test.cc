#include "gpu/golden_for_test.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <string>

namespace sprat::gpu {
namespace {

std::vector<uint8_t> DecodeBase64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

}  // namespace

Result<std::vector<GoldenVector>> ReadGolden(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<GoldenVector> all;
  for (std::string line; std::getline(in, line);) {
    const std::string_view ids_key = "\"ids\": [", vector_key = "\"vector_f32le\": \"";
    const size_t ids_at = line.rfind(ids_key), vector_at = line.rfind(vector_key);
    if (ids_at == std::string::npos || vector_at == std::string::npos) {
      return Error(ErrorCode::kCorrupt,
                   fmt::format("{}: line {} lacks ids or vector", file.string(), all.size() + 1));
    }
    GoldenVector golden;
    for (size_t at = ids_at + ids_key.size(); line[at] != ']';) {
      size_t used = 0;
      golden.ids.push_back(static_cast<uint32_t>(std::stoul(line.substr(at, 12), &used)));
      at += used;
      while (line[at] == ',' || line[at] == ' ') ++at;
    }
    const std::vector<uint8_t> bytes =
        DecodeBase64(std::string_view(line).substr(vector_at + vector_key.size()));
    golden.vector.resize(bytes.size() / sizeof(float));
    std::memcpy(golden.vector.data(), bytes.data(), golden.vector.size() * sizeof(float));
    all.push_back(std::move(golden));
  }
  if (all.empty()) return Error(ErrorCode::kNotFound, file.string() + ": no golden vectors");
  return all;
}

}  // namespace sprat::gpu
