// What a call costs after the first of its size: no allocation.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "model/model_writer_for_test.h"
#include "sprat/engine.h"

namespace {
std::atomic<size_t> allocations{0};
}  // namespace

// Not inlined, so that the compiler does not take the pair for a mismatch. The second is
// simdjson's.
[[gnu::noinline]] void* operator new(size_t size_bytes) {
  ++allocations;
  void* memory = std::malloc(size_bytes == 0 ? 1 : size_bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void* operator new(size_t size_bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size_bytes == 0 ? 1 : size_bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sprat {
namespace {

// The least that one of some calls with the same texts allocated: with several threads the first
// calls may not have met all that the tokenizer keeps for threads that meet.
size_t AllocationsOfACall(const std::filesystem::path& directory, size_t threads,
                          const std::vector<std::string_view>& texts) {
  Result<Engine> engine = Engine::Open(directory, {.threads = threads});
  EXPECT_TRUE(engine.ok()) << engine.error().message();
  Embeddings rows;
  size_t least = SIZE_MAX;
  for (int call = 0; call < 20; ++call) {
    const size_t before = allocations;
    EXPECT_TRUE(engine.value().EmbedInto(texts, {}, rows).ok());
    least = std::min<size_t>(least, allocations - before);
  }
  return least;
}

std::filesystem::path TinyStatic() {
  TinyModel encoder{.write_weights = false, .vocab_txt = false, .tokenizer_json = true};
  encoder.modules_json = false;
  const std::filesystem::path directory = encoder.Write();
  WriteTestFile(directory / "config.json", R"({"normalize": true})");
  const size_t rows = TinyVocabulary().size();
  const TestTensor table{
      .name = "embeddings", .shape = {rows, 8}, .values = std::vector<float>(rows * 8, 0.5f)};
  WriteTestFile(directory / "model.safetensors", SafetensorsBytes({table}));
  return directory;
}

TEST(EngineCost, ACallOfAKnownSizeAllocatesNothing) {
  const std::vector<std::string_view> one = {"good morning by the river bank"};
  // Several windows, tokenized by several threads.
  std::vector<std::string_view> many(3000, one[0]);
  for (size_t i = 0; i < many.size(); i += 3) many[i] = "unaffable \xc3\xa9t\xc3\xa9 [SEP] bank";
  EXPECT_EQ(AllocationsOfACall(TinyModel{}.Write(), 2, one), 0u);
  EXPECT_EQ(AllocationsOfACall(TinyStatic(), 1, one), 0u);
  EXPECT_EQ(AllocationsOfACall(TinyStatic(), 1, many), 0u);
  EXPECT_EQ(AllocationsOfACall(TinyStatic(), 3, many), 0u);
}

}  // namespace
}  // namespace sprat
