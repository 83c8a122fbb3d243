// The model fingerprint: what decides a text's vector, apart from the arithmetic, as one SHA-256.
#ifndef SPRAT_MODEL_FINGERPRINT_H_
#define SPRAT_MODEL_FINGERPRINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/safetensors.h"
#include "sprat/result.h"

namespace sprat {

// SHA-256 (FIPS 180-4) of a list of named facts, in the order of the calls. What is hashed:
//   "sprat fingerprint 1\n", then for each fact
//   u64 length of its name, the name, u64 length of its value, the value
// (integers little-endian, lengths in bytes), so that no two lists have the same bytes. The value
// of
//   Add(text)       is the text;
//   AddNumber       is a u64;
//   AddTensor       is u64 rank, u64 sizes, then every element as f32 in row-major order.
// A tensor's storage type is not hashed: equal values give equal bytes.
class FingerprintBuilder {
 public:
  FingerprintBuilder();
  FingerprintBuilder(FingerprintBuilder&&) noexcept;
  ~FingerprintBuilder();

  void Add(std::string_view name, std::string_view text);
  void AddNumber(std::string_view name, uint64_t number);

  // Reads the tensor once, a megabyte at a time, and gives the pages it read back to `file`, where
  // it lies. Errors: kUnsupported, naming the tensor, unless it is F32, F16, BF16
  // or I8.
  Result<void> AddTensor(std::string_view name, const Tensor& tensor, const TensorFile& file);

  // 64 lower-case hexadecimal digits. Call it once, last.
  std::string Finish();

 private:
  void Update(const void* bytes, size_t size_bytes);
  void UpdateNumber(uint64_t number);

  class Hash;
  std::unique_ptr<Hash> hash_;
};

// A tensor that the model uses, under the name that its architecture gives it.
struct UsedTensor {
  std::string name;  // "encoder.layer.0.output.dense.weight"
  const Tensor* tensor = nullptr;
};

// The fingerprint of a BERT-family sentence encoder.
//   sentence: as it is applied, the caller's options included. Prompts without text and the name of
//     the default prompt change no vector and are left out; the default prompt's text counts.
//   tokenizer_behaviour: Tokenizer::Behaviour().
//   used: every tensor that is used, once, in any order; they lie in `file`.
// It does not depend on file names, sharding, tensors that are not used, name prefixes, or the
// storage type of equal values. Pure; any thread. Cost: the SHA-256 of 4 bytes a parameter.
Result<std::string> EncoderFingerprint(const EncoderConfig& encoder, const SentenceConfig& sentence,
                                       std::string_view tokenizer_behaviour,
                                       std::vector<UsedTensor> used, const TensorFile& file);

}  // namespace sprat

#endif  // SPRAT_MODEL_FINGERPRINT_H_
