// libFuzzer target: any bytes as each of the JSON files of a model directory.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "model/config.h"

namespace {

// A directory in memory, made on first use; the fuzzer's end leaves it to the system.
const std::filesystem::path& Directory() {
  static const std::filesystem::path directory = [] {
    char pattern[] = "/dev/shm/sprat-fuzz.XXXXXX";
    CHECK(mkdtemp(pattern) != nullptr);
    std::filesystem::create_directory(std::filesystem::path(pattern) / "1_Pooling");
    return std::filesystem::path(pattern);
  }();
  return directory;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  const sprat::EncoderConfig encoder{
      .layers = 1, .hidden = 32, .heads = 1, .ffn = 64, .vocabulary = 9, .positions = 64};
  for (const char* name :
       {"config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
        "tokenizer_config.json", "config_sentence_transformers.json"}) {
    const std::filesystem::path file = Directory() / name;
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size_bytes));
    sprat::Result<sprat::EncoderConfig> config = sprat::ReadEncoderConfig(Directory());
    if (config.ok()) CHECK(config.value().hidden % config.value().heads == 0);
    sprat::Result<sprat::SentenceConfig> sentence = sprat::ReadSentenceConfig(Directory(), encoder);
    if (sentence.ok()) CHECK(sentence.value().max_sequence <= encoder.positions);
    std::filesystem::remove(file);
  }
  return 0;
}
