// What the tokenizer costs: allocations, memory and time on large inputs, and threads.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files_for_test.h"

namespace {
std::atomic<size_t> allocations{0};
std::atomic<size_t> allocated_bytes{0};
}  // namespace

// Not inlined, so that the compiler does not take the pair for a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  allocated_bytes += size;
  void* p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
// What simdjson allocates with; given back by the same `delete`.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  allocated_bytes += size;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace sprat {
namespace {

const Tokenizer& Bert() {
  static const Tokenizer tokenizer = [] {
    const TestDirectory directory;
    directory.Write("vocab.txt", BertVocabTxt());
    return OpenOrDie(directory.path());
  }();
  return tokenizer;
}

Tokenizer FromJson(const std::string& json) {
  const TestDirectory directory;
  directory.Write("tokenizer.json", json);
  return OpenOrDie(directory.path());
}

Tokenizer SmallUnigram() {
  return FromJson(R"({"added_tokens":[],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"}]},
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},
      {"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":true}]},
    "post_processor":null,"decoder":null,"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,
      "vocab":[["<unk>",0.0],["\u2581",-2.0],["e",-3.0],["t",-3.1],["to",-4.5],["xx",-5.0],
               ["\u2581re",-6.0],["\u0436",-7.0]]}})");
}

Tokenizer SmallBpe() {
  return FromJson(R"({"added_tokens":[],"normalizer":{"type":"NFC"},
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":null,"decoder":null,"model":{"type":"BPE","dropout":null,"unk_token":"<unk>",
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
      "vocab":{"<unk>":0,"e":1,"t":2,"r":3,"x":4,"re":5,"xx":6,"xxxx":7,"\u0120":8,"\u0120re":9},
      "merges":[["x","x"],["r","e"],["xx","xx"],["\u0120","re"]]}})");
}

const std::vector<std::string>& Texts() {
  static const std::vector<std::string> texts = {
      "How do I reset my password?",
      "The unaffable embeddings' tokenization, re-tokenized: 3.14159 & co.",
      "Dvo\u0159\u00e1k \u0416\u0438\u0437\u043d\u044c \u4f60\u597d \u3053\u3093\u306b\u3061\u306f "
      "\ud55c\uad6d",
      "stop[SEP]go " + std::string(300, 'x'), ""};
  return texts;
}

TEST(TokenizerCost, AllocatesNothingAfterTheFirstTexts) {
  std::vector<uint32_t> ids;
  ids.reserve(10000);
  const Tokenizer unigram = SmallUnigram(), bpe = SmallBpe();
  for (const Tokenizer* tokenizer : {&Bert(), &unigram, &bpe}) {
    const auto tokenize_all = [&] {
      for (const std::string& text : Texts()) {
        ids.clear();
        ASSERT_TRUE(tokenizer->Tokenize(text, {.max_tokens = 256}, ids).ok());
      }
    };
    for (int i = 0; i < 4; ++i) tokenize_all();  // scratch strings take turns
    const size_t before = allocations;
    for (int i = 0; i < 100; ++i) tokenize_all();
    EXPECT_EQ(allocations - before, 0u);
  }
}

// Tokenizes `text` cut to 512 tokens; returns the bytes that this allocated.
size_t BytesAllocatedFor(const std::string& text) {
  std::vector<uint32_t> ids;
  ids.reserve(1000);
  const size_t before = allocated_bytes;
  EXPECT_TRUE(Bert().Tokenize(text, {.max_tokens = 512}, ids).ok());
  return allocated_bytes - before;
}

TEST(TokenizerCost, LargeTextsTakeLinearTimeAndBoundedMemory) {
  Ids(Bert(), "warm");
  std::string words;
  while (words.size() < 10'000'000) words += "\u0416ow unaffable. ";
  std::string ideographs;
  while (ideographs.size() < 10'000'000) ideographs += "\u4f60\u597d";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_LT(BytesAllocatedFor(std::string(10'000'000, 'a')), 1u << 16);  // one word
  EXPECT_LT(BytesAllocatedFor(words), 1u << 16);
  EXPECT_LT(BytesAllocatedFor(ideographs), 1u << 16);
  EXPECT_LT(BytesAllocatedFor(std::string(10'000'000, ' ')), 1u << 16);
  EXPECT_LT(BytesAllocatedFor(std::string(10'000'000, '[')), 1u << 16);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(Ids(Bert(), std::string(10'000'000, 'a')).size(), 3u);
}

// What is in use of the heap and of memory that malloc maps; 0 under a sanitizer's own malloc.
size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(TokenizerCost, AVocabularyOf276326PiecesTakesAtMost5TimesItsStrings) {
  const char* models = std::getenv("SPRAT_TEST_MODELS");
  const auto directory =
      std::filesystem::path(models == nullptr ? "" : models) / "tokenlearn-static";
  if (!std::filesystem::exists(directory)) GTEST_SKIP() << "no real model: tools/fetch_model.py";
  const size_t before = BytesInUse();
  const Tokenizer tokenizer = OpenOrDie(directory);
  const size_t taken = BytesInUse() - before;
  ASSERT_EQ(tokenizer.vocabulary_size(), 276326u);
  size_t strings = 0;
  for (uint32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    strings += tokenizer.Token(id).value_or("").size();
  }
  std::printf("%zu bytes for strings of %zu\n", taken, strings);
  EXPECT_LE(taken, 5 * strings);
}

TEST(TokenizerCost, ThreadsGetTheSameIds) {
  std::vector<std::vector<uint32_t>> expected;
  for (const std::string& text : Texts()) expected.push_back(Ids(Bert(), text));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        for (size_t n = 0; n < Texts().size(); ++n) {
          std::vector<uint32_t> ids;
          const auto made = Bert().Tokenize(Texts()[n], {}, ids);
          if (!made.ok() || ids != expected[n]) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sprat
