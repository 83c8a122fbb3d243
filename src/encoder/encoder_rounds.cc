// Times the encoder on token ids, in rounds that another program asks for, so that it can alternate
// them with a rival's.
//
//   encoder_rounds MODEL_DIRECTORY THREADS
//
// Reads lines "ITERATIONS id id ... , id id ... , ..." (sequences of one batch) and answers each
// with one line of JSON: {"ms": [a time an iteration], "vector": [the first row's values]}.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "encoder/load_weights.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace sprat {
namespace {

TokenBatch ParseBatch(std::istream& text) {
  TokenBatch batch;
  std::vector<uint32_t> ids;
  for (std::string word; text >> word;) {
    if (word == ",") {
      batch.Append(ids);
      ids.clear();
    } else {
      ids.push_back(static_cast<uint32_t>(std::strtoul(word.c_str(), nullptr, 10)));
    }
  }
  batch.Append(ids);
  return batch;
}

Result<void> Answer(Encoder& encoder, const std::string& line) {
  std::istringstream text(line);
  size_t iterations = 0;
  text >> iterations;
  const TokenBatch batch = ParseBatch(text);
  std::vector<float> out(batch.sequences() * encoder.dimensions());
  std::string times;
  for (size_t i = 0; i < iterations; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Result<void> done =
        encoder.Embed(batch, {}, {out.data(), batch.sequences(), encoder.dimensions()});
    if (!done.ok()) return done;
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    times += (i == 0 ? "" : ", ") + std::to_string(ms.count());
  }
  std::printf("{\"ms\": [%s], \"vector\": [", times.c_str());
  for (size_t c = 0; c < encoder.dimensions(); ++c) {
    std::printf("%s%.9g", c == 0 ? "" : ", ", static_cast<double>(out[c]));
  }
  std::printf("]}\n");
  std::fflush(stdout);
  return {};
}

Result<void> Serve(const std::string& directory, size_t threads) {
  const Result<TensorFile> file = TensorFile::OpenDirectory(directory);
  if (!file.ok()) return file.error();
  const Result<EncoderConfig> config = ReadEncoderConfig(directory);
  if (!config.ok()) return config.error();
  const Result<std::unique_ptr<Encoder>> encoder =
      Encoder::Create(config.value(), {.threads = threads}, SourceOf(file.value()));
  if (!encoder.ok()) return encoder.error();
  for (std::string line; std::getline(std::cin, line);) {
    Result<void> answered = Answer(*encoder.value(), line);
    if (!answered.ok()) return answered;
  }
  return {};
}

}  // namespace
}  // namespace sprat

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: encoder_rounds MODEL_DIRECTORY THREADS\n");
    return 2;
  }
  const sprat::Result<void> served = sprat::Serve(argv[1], std::strtoul(argv[2], nullptr, 10));
  if (served.ok()) return 0;
  std::fprintf(stderr, "%s\n", served.error().message().c_str());
  return 1;
}
