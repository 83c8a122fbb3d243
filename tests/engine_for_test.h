// What the tests of the engine as a whole share.
#ifndef SPRAT_TESTS_ENGINE_FOR_TEST_H_
#define SPRAT_TESTS_ENGINE_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model_writer_for_test.h"
#include "sprat/engine.h"

namespace sprat {

// A load that must fail is repeated, so that a leak would be seen by the sanitizers.
inline constexpr int kRepeats{50};

inline Engine OpenOrDie(const std::filesystem::path& directory, const EngineOptions& options = {}) {
  Result<Engine> engine = Engine::Open(directory, options);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.error().message();
    std::abort();
  }
  return std::move(engine).value();
}

inline Engine OpenOrDie(const TinyModel& model, const EngineOptions& options = {}) {
  return OpenOrDie(model.Write(), options);
}

inline Embeddings EmbedOrDie(const Engine& engine, const std::vector<std::string>& texts,
                             const EmbedOptions& options = {}) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  Result<Embeddings> rows = engine.Embed(views, options);
  if (!rows.ok()) {
    ADD_FAILURE() << rows.error().message();
    std::abort();
  }
  return std::move(rows).value();
}

// The vector of one text.
inline std::vector<float> VectorOf(const Engine& engine, const std::string& text,
                                   const EmbedOptions& options = {}) {
  return EmbedOrDie(engine, {text}, options).values;
}

// Equal to the bit: unlike ==, tells 0 from -0 and finds a NaN equal to itself.
inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline double Norm(std::span<const float> v) {
  double sum = 0.0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

inline bool AllFinite(std::span<const float> v) {
  for (const float x : v) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

inline std::string Repeated(std::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

// The entries of BERT's uncased vocabulary: 30,522.
inline std::vector<std::string> BertVocabulary() {
  return ReadVocabulary(std::filesystem::path(SPRAT_TESTDATA) / "bert" / "vocab.txt");
}

// The message of the error of opening `directory`, which is replaced by DIR; every one of kRepeats
// openings must fail with `code`.
inline std::string OpenFault(const std::filesystem::path& directory, ErrorCode code) {
  std::string message;
  for (int i = 0; i < kRepeats; ++i) {
    Result<Engine> engine = Engine::Open(directory);
    if (engine.ok()) return "no error";
    EXPECT_EQ(engine.error().code(), code) << engine.error().message();
    message = engine.error().message();
  }
  EXPECT_EQ(message.find('\n'), message.npos) << message;
  const std::string path = directory.string();
  for (size_t at = message.find(path); at != message.npos; at = message.find(path)) {
    message.replace(at, path.size(), "DIR");
  }
  return message;
}

}  // namespace sprat

#endif  // SPRAT_TESTS_ENGINE_FOR_TEST_H_
