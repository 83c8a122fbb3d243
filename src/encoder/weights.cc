#include "encoder/weights.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace sprat {
namespace {

constexpr size_t kLineFloats{16};  // a cache line

size_t RoundUp(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Places tensors one after the other in the arena. With no arena it only counts, so that one walk
// sizes the arena and a second one fills it. The first error is kept and ends all reading.
class Packer {
 public:
  Packer(const Kernels& kernels, const TensorSource& source, ThreadPool& pool)
      : kernels_(kernels), source_(source), pool_(pool) {}

  void Fill(ByteBuffer& arena) {
    start_ = arena.begin();
    used_bytes_ = 0;
    parameters_ = 0;
  }
  size_t used_bytes() const { return used_bytes_; }
  size_t parameters() const { return parameters_; }
  const std::optional<Error>& error() const { return error_; }

  // Room for n floats, 64-byte aligned.
  float* Floats(size_t n) {
    return reinterpret_cast<float*>(Bytes(RoundUp(n, kLineFloats) * sizeof(float)));
  }

  // The tensor's values; none while only counting or after an error.
  SourceTensor Read(const std::string& name, std::initializer_list<uint64_t> shape) {
    uint64_t elements = 1;
    for (const uint64_t extent : shape) elements *= extent;
    parameters_ += elements;
    if (start_ == nullptr || error_.has_value()) return {};
    Result<SourceTensor> tensor = source_(name, {shape.begin(), shape.size()});
    if (!tensor.ok()) {
      error_ = std::move(tensor.error());
      return {};
    }
    CHECK(tensor.value().values.size() == elements);
    return tensor.value();
  }

  const float* Vector(const std::string& name, uint64_t n) {
    float* at = Floats(n);
    std::ranges::copy(Read(name, {n}).values, at);
    return at;
  }

  NormWeights Norm(const std::string& name, uint64_t n) {
    return {.gamma = Vector(name + ".weight", n), .beta = Vector(name + ".bias", n)};
  }

  // The linear layers called `names`, each (out, in), one below the other.
  PackedWeights Linear(std::span<const std::string> names, uint64_t out, uint64_t in) {
    const size_t rows = names.size() * out;
    const size_t panels = (rows + kernels_.panel_rows - 1) / kernels_.panel_rows;
    const size_t panel_bytes = kernels_.panel_bytes(in);
    std::byte* packed = Bytes(panels * panel_bytes);
    float* bias = Floats(panels * kernels_.panel_rows);
    std::vector<float> joined;  // only where several tensors become one matrix
    for (size_t i = 0; i < names.size(); ++i) {
      const std::span<const float> part = Read(names[i] + ".weight", {out, in}).values;
      if (names.size() == 1) {
        Pack(part, rows, in, packed);
      } else {
        joined.insert(joined.end(), part.begin(), part.end());
      }
      std::ranges::copy(Read(names[i] + ".bias", {out}).values, bias + i * out);
    }
    if (names.size() > 1) Pack(joined, rows, in, packed);
    return {.panels = packed, .bias = bias, .in = in, .out = rows};
  }

 private:
  std::byte* Bytes(size_t n) {
    std::byte* at = start_ == nullptr ? nullptr : start_ + used_bytes_;
    used_bytes_ += n;
    return at;
  }

  void Pack(std::span<const float> w, size_t out, size_t in, std::byte* packed) {
    if (start_ == nullptr || error_.has_value()) return;
    const size_t panels = (out + kernels_.panel_rows - 1) / kernels_.panel_rows;
    pool_.Run([&](size_t rank, Team& team) {
      const Share share = ShareOf(panels, rank, team.size());
      for (size_t p = share.begin; p < share.end; ++p) {
        kernels_.pack_panel(w.data(), in, out, p * kernels_.panel_rows,
                            packed + p * kernels_.panel_bytes(in));
      }
    });
  }

  const Kernels& kernels_;
  const TensorSource& source_;
  ThreadPool& pool_;
  std::byte* start_ = nullptr;
  size_t used_bytes_ = 0;
  size_t parameters_ = 0;
  std::optional<Error> error_;
};

LayerWeights PackLayer(const EncoderConfig& c, size_t index, Packer& packer) {
  const std::string layer = "encoder.layer." + std::to_string(index) + ".";
  const std::string self = layer + "attention.self.";
  const std::string qkv[] = {self + "query", self + "key", self + "value"};
  const std::string out[] = {layer + "attention.output.dense"};
  const std::string up[] = {layer + "intermediate.dense"};
  const std::string down[] = {layer + "output.dense"};
  LayerWeights w{};
  w.qkv = packer.Linear(qkv, c.hidden, c.hidden);
  w.out = packer.Linear(out, c.hidden, c.hidden);
  w.norm1 = packer.Norm(layer + "attention.output.LayerNorm", c.hidden);
  w.up = packer.Linear(up, c.ffn, c.hidden);
  w.down = packer.Linear(down, c.hidden, c.ffn);
  w.norm2 = packer.Norm(layer + "output.LayerNorm", c.hidden);
  return w;
}

// The type of every token is 0, so its row is added to the positions once.
MatrixView<const float> PackPositions(const EncoderConfig& c, Packer& packer) {
  float* rows = packer.Floats(size_t{c.positions} * c.hidden);
  std::ranges::copy(
      packer.Read("embeddings.position_embeddings.weight", {c.positions, c.hidden}).values, rows);
  const std::span<const float> types =
      packer.Read("embeddings.token_type_embeddings.weight", {c.token_types, c.hidden}).values;
  if (!types.empty()) {
    for (size_t i = 0; i < size_t{c.positions} * c.hidden; ++i) rows[i] += types[i % c.hidden];
  }
  return {rows, c.positions, c.hidden};
}

void PackAll(const EncoderConfig& c, Packer& packer, EncoderWeights& weights) {
  weights.positions = PackPositions(c, packer);
  weights.norm = packer.Norm("embeddings.LayerNorm", c.hidden);
  weights.layers.clear();
  for (size_t i = 0; i < c.layers; ++i) weights.layers.push_back(PackLayer(c, i, packer));
}

}  // namespace

Result<EncoderWeights> PackEncoderWeights(const EncoderConfig& config, const Kernels& kernels,
                                          const TensorSource& source, ThreadPool& pool) {
  const uint64_t shape[] = {config.vocabulary, config.hidden};
  Result<SourceTensor> words = source("embeddings.word_embeddings.weight", shape);
  if (!words.ok()) return std::move(words.error());
  const size_t word_floats = words.value().values.size();

  EncoderWeights weights;
  Packer packer(kernels, source, pool);
  PackAll(config, packer, weights);
  const size_t owned_bytes = packer.used_bytes();
  const size_t word_bytes = word_floats * sizeof(float);
  Result<ByteBuffer> arena =
      ByteBuffer::Allocate(owned_bytes + (words.value().stays ? 0 : word_bytes));
  if (!arena.ok()) return std::move(arena.error()).In("packing the encoder's weights");
  weights.arena = std::move(arena).value();

  const float* rows = words.value().values.data();
  if (!words.value().stays) {
    float* copy = reinterpret_cast<float*>(weights.arena.begin() + owned_bytes);
    std::ranges::copy(words.value().values, copy);
    rows = copy;
  }
  weights.words = {rows, config.vocabulary, config.hidden};
  packer.Fill(weights.arena);
  PackAll(config, packer, weights);
  if (packer.error().has_value()) return *packer.error();
  weights.size_bytes = owned_bytes + word_bytes;
  weights.parameters = packer.parameters() + word_floats;
  return weights;
}

}  // namespace sprat
