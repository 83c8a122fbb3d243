#include "model/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "model/tensor_pieces.h"

namespace sprat {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are hashed as they lie in memory");

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

}  // namespace

// Only a lack of memory can make libcrypto fail here, and that before the first byte.
class FingerprintBuilder::Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) {
    CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void Update(const void* bytes, size_t size_bytes) {
    CHECK(EVP_DigestUpdate(context_.get(), bytes, size_bytes) == 1);
  }
  std::array<unsigned char, 32> Finish() {
    std::array<unsigned char, 32> digest{};
    CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
    return digest;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
};

FingerprintBuilder::FingerprintBuilder() : hash_(std::make_unique<Hash>()) {
  constexpr std::string_view kVersion{"sprat fingerprint 1\n"};
  Update(kVersion.data(), kVersion.size());
}
FingerprintBuilder::FingerprintBuilder(FingerprintBuilder&&) noexcept = default;
FingerprintBuilder::~FingerprintBuilder() = default;

void FingerprintBuilder::Update(const void* bytes, size_t size_bytes) {
  hash_->Update(bytes, size_bytes);
}

void FingerprintBuilder::UpdateNumber(uint64_t number) { Update(&number, sizeof(number)); }

void FingerprintBuilder::Add(std::string_view name, std::string_view text) {
  UpdateNumber(name.size());
  Update(name.data(), name.size());
  UpdateNumber(text.size());
  Update(text.data(), text.size());
}

void FingerprintBuilder::AddNumber(std::string_view name, uint64_t number) {
  Add(name, {reinterpret_cast<const char*>(&number), sizeof(number)});
}

Result<void> FingerprintBuilder::AddTensor(std::string_view name, const Tensor& tensor,
                                           const TensorFile& file) {
  UpdateNumber(name.size());
  Update(name.data(), name.size());
  UpdateNumber(sizeof(uint64_t) * (1 + tensor.shape.size()) + sizeof(float) * tensor.elements());
  UpdateNumber(tensor.shape.size());
  for (const uint64_t size : tensor.shape) UpdateNumber(size);
  std::vector<float> values;
  return ForEachPiece(file, tensor, [&](const Tensor& piece, size_t) -> Result<void> {
    const size_t count = piece.elements();
    values.resize(count);
    if (piece.dtype == DType::kI8) {
      const auto* integers = reinterpret_cast<const int8_t*>(piece.bytes.data());
      std::copy_n(integers, count, values.begin());
      Update(values.data(), count * sizeof(float));
    } else if (piece.dtype == DType::kF32) {
      Update(piece.bytes.data(), piece.bytes.size());
    } else {
      Result<void> copied = CopyAsF32(piece, values);
      if (!copied.ok()) return std::move(copied.error()).In("tensor '" + std::string(name) + "'");
      Update(values.data(), count * sizeof(float));
    }
    return {};
  });
}

std::string FingerprintBuilder::Finish() {
  constexpr std::string_view kDigits{"0123456789abcdef"};
  std::string text;
  for (const unsigned char byte : hash_->Finish()) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

namespace {

std::string_view Name(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_new";
    case Activation::kRelu:
      return "relu";
  }
  return "";
}

// The vocabulary is not here: the shape of the word embeddings and the tokenizer say it.
void AddArchitecture(const EncoderConfig& config, FingerprintBuilder& builder) {
  builder.Add("architecture", "bert");
  builder.AddNumber("layers", config.layers);
  builder.AddNumber("hidden", config.hidden);
  builder.AddNumber("heads", config.heads);
  builder.AddNumber("ffn", config.ffn);
  builder.AddNumber("layer_norm_eps", std::bit_cast<uint32_t>(config.layer_norm_eps));
  builder.Add("activation", Name(config.activation));
}

void AddSentence(const SentenceConfig& config, FingerprintBuilder& builder) {
  builder.Add("pooling", Name(config.pooling));
  builder.AddNumber("normalize", config.normalize ? 1 : 0);
  builder.AddNumber("max_sequence", config.max_sequence);
  for (const auto& [name, text] : config.prompts) {
    if (!text.empty()) builder.Add("prompt " + name, text);
  }
  std::string_view default_prompt;
  if (config.default_prompt_name) {
    const auto found = config.prompts.find(*config.default_prompt_name);
    if (found != config.prompts.end()) default_prompt = found->second;
  }
  builder.Add("default prompt", default_prompt);
}

}  // namespace

Result<std::string> EncoderFingerprint(const EncoderConfig& encoder, const SentenceConfig& sentence,
                                       std::string_view tokenizer_behaviour,
                                       std::vector<UsedTensor> used, const TensorFile& file) {
  FingerprintBuilder builder;
  AddArchitecture(encoder, builder);
  AddSentence(sentence, builder);
  builder.Add("tokenizer", tokenizer_behaviour);
  std::sort(used.begin(), used.end(),
            [](const UsedTensor& a, const UsedTensor& b) { return a.name < b.name; });
  for (const UsedTensor& entry : used) {
    Result<void> added = builder.AddTensor(entry.name, *entry.tensor, file);
    if (!added.ok()) return std::move(added.error());
  }
  return builder.Finish();
}

}  // namespace sprat
