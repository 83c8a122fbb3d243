#include "ngram/ngram_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/float_mode.h"
#include "ngram/number_formats.h"

namespace sprat {
namespace {

// Tokens are resolved, gathered and projected in parts of about so many rows: enough to keep a disk
// busy, few enough that a long prompt does not need an arena of its own size.
constexpr size_t kRowsAPart{6144};

// Products below which the calling thread works alone: about 10 us of one core (Zen 4). Two threads
// save 2 of them at best, and cost 10 more where the second must be woken first.
constexpr size_t kProductsAlone{1 << 20};

size_t CountTokens(std::span<const NgramPiece> pieces) {
  size_t tokens = 0;
  for (const NgramPiece& piece : pieces) tokens += piece.tokens.size();
  return tokens;
}

}  // namespace

NgramLayer::NgramLayer(const NgramConfig& config, const NgramKernels& kernels, ThreadPool& threads)
    : hash_(config, kernels), kernels_(kernels), threads_(threads) {
  const double rows = 1.0 + config.tables();
  switch (config.scale) {
    case NgramScale::kAverage:
      word_scale_ = sum_scale_ = static_cast<float>(1 / rows);
      break;
    case NgramScale::kFixedFactor:
      word_scale_ = sum_scale_ = static_cast<float>(1 / std::sqrt(rows));
      break;
    case NgramScale::kFullWord:
      sum_scale_ = static_cast<float>(1 / rows);
      break;
  }
}

Result<std::unique_ptr<NgramLayer>> NgramLayer::Load(const NgramConfig& config,
                                                     const NgramTensors& tensors,
                                                     const NgramOptions& options,
                                                     const NgramKernels& kernels,
                                                     ThreadPool& threads) {
  std::unique_ptr<NgramLayer> layer(new NgramLayer(config, kernels, threads));
  layer->word_ = tensors.word;
  if (tensors.word != nullptr && tensors.word->dtype != DType::kBF16 &&
      tensors.word->dtype != DType::kF16 && tensors.word->dtype != DType::kF32) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("the word table is {}, supported are BF16, F16 and F32",
                             Name(tensors.word->dtype)));
  }
  Result<RowTables> tables = RowTables::Load(config, tensors, options, threads);
  if (!tables.ok()) return std::move(tables.error());
  layer->tables_ = std::move(tables).value();
  Result<PackedProjection> projection = PackedProjection::Pack(config, tensors, threads);
  if (!projection.ok()) return std::move(projection.error());
  layer->projection_ = std::move(projection).value();
  return layer;
}

// Every token that is hashed is one of the vocabulary.
Result<void> NgramLayer::Check(std::span<const NgramPiece> pieces) const {
  const uint32_t vocabulary = config().vocabulary;
  for (size_t i = 0; i < pieces.size(); ++i) {
    // A look-back ends after N - 1 tokens: what is further back does not matter.
    const size_t looked_at = std::min<size_t>(pieces[i].context.size(), config().max_order - 1);
    const std::span<const uint32_t> context = pieces[i].context.last(looked_at);
    for (const std::span<const uint32_t> tokens : {context, pieces[i].tokens}) {
      const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                      [&](uint32_t token) { return token >= vocabulary; });
      if (wrong == tokens.end()) continue;
      const bool in_context = tokens.data() == context.data();
      const size_t at = static_cast<size_t>(wrong - tokens.begin()) +
                        (in_context ? pieces[i].context.size() - looked_at : 0);
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{} {} of piece {} is {}, expected an id below vocab_size {}",
                               in_context ? "context token" : "token", at, i, *wrong, vocabulary));
    }
  }
  return {};
}

void NgramLayer::Hash(std::span<const NgramPiece> pieces, std::span<uint32_t> ids) const {
  for (const NgramPiece& piece : pieces) {
    const size_t count = piece.tokens.size() * config().tables();
    hash_.Ids(piece.context, piece.tokens, ids.first(count));
    ids = ids.subspan(count);
  }
}

Result<void> NgramLayer::Ids(std::span<const NgramPiece> pieces, std::span<uint32_t> ids) const {
  Result<void> checked = Check(pieces);
  if (!checked.ok()) return checked;
  const size_t expected = CountTokens(pieces) * config().tables();
  if (ids.size() != expected) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("room for {} ids, expected {}", ids.size(), expected));
  }
  Hash(pieces, ids);
  return {};
}

Result<void> NgramLayer::Prefetch(std::span<const NgramPiece> pieces) const {
  if (tables_.cache() == nullptr) return {};
  std::vector<uint32_t> ids(CountTokens(pieces) * config().tables());
  Result<void> hashed = Ids(pieces, ids);
  if (!hashed.ok()) return hashed;
  return tables_.Prefetch(ids);
}

std::unique_ptr<NgramLayer::Scratch> NgramLayer::TakeScratch() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(idle_.back());
  idle_.pop_back();
  return scratch;
}

Result<void> NgramLayer::Embed(std::span<const NgramPiece> pieces, std::span<const float> word,
                               std::span<float> out) {
  Result<void> checked = Check(pieces);
  if (!checked.ok()) return checked;
  const size_t values = CountTokens(pieces) * config().hidden;
  if (out.size() != values) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("room for {} values, expected {}", out.size(), values));
  }
  if (word.empty() ? word_ == nullptr && values > 0 : word.size() != values) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{} values of word rows, expected {}{}", word.size(), values,
                             word_ == nullptr ? ": the model was opened without its word table"
                                              : " or none"));
  }
  std::unique_ptr<Scratch> scratch = TakeScratch();
  Result<void> embedded = EmbedIn(*scratch, pieces, word, out);
  scratch->pins.Release();
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
  return embedded;
}

Result<void> NgramLayer::EmbedIn(Scratch& scratch, std::span<const NgramPiece> pieces,
                                 std::span<const float> word, std::span<float> out) {
  scratch.tokens.clear();
  for (const NgramPiece& piece : pieces) {
    scratch.tokens.insert(scratch.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  }
  const size_t tokens = scratch.tokens.size(), tables = config().tables();
  scratch.ids.resize(tokens * tables);
  Hash(pieces, scratch.ids);
  const size_t part_tokens =
      std::min({std::max(kRowsAPart / tables, size_t{1}), tables_.tokens_at_once(), tokens});
  if (scratch.x.size() < part_tokens * projection_.depth()) {
    Result<Buffer<uint16_t>> x = Buffer<uint16_t>::Allocate(part_tokens * projection_.depth());
    if (!x.ok()) return std::move(x.error());
    scratch.x = std::move(x).value();  // zeros: what lies between H and depth() stays 0
  }
  for (size_t first = 0; first < tokens; first += part_tokens) {
    const Part part{.first = first, .count = std::min(part_tokens, tokens - first)};
    Result<void> resolved = tables_.Resolve(
        std::span(scratch.ids).subspan(first * tables, part.count * tables), scratch.pins);
    if (!resolved.ok()) return resolved;
    Compute(part, word, out, scratch);
    scratch.pins.Release();  // the gather has completed
  }
  return {};
}

void NgramLayer::Compute(Part part, std::span<const float> word, std::span<float> out,
                         Scratch& scratch) {
  const size_t hidden = config().hidden;
  const auto work = [&](Member& member) {
    member.ForEach(part.count, [&](size_t begin, size_t end) {
      CopyWordRows({.first = part.first + begin, .count = end - begin}, word, out, scratch);
      GatherRows(part, {begin, end}, scratch);
    });
    member.ForEach(projection_.panels(), [&](size_t begin, size_t end) {
      projection_.Apply({.x = scratch.x.begin(),
                         .y = out.data() + part.first * hidden,
                         .tokens = part.count,
                         .word_scale = word_scale_,
                         .sum_scale = sum_scale_},
                        kernels_, {begin, end});
    });
  };
  if (part.count * hidden * hidden < kProductsAlone) {
    const ScopedFlushToZero flush;
    WorkSteps alone(1);
    Member member(alone, 0);
    work(member);
    return;
  }
  std::lock_guard lock(compute_);
  threads_.RunSteps(work);
}

// out = E[x_t], (T, H).
void NgramLayer::CopyWordRows(Part part, std::span<const float> word, std::span<float> out,
                              const Scratch& scratch) const {
  const size_t hidden = config().hidden;
  for (size_t t = part.first; t < part.first + part.count; ++t) {
    float* row = out.data() + t * hidden;
    if (word.empty()) {
      CopyWordRow(scratch.tokens[t], row);
    } else {
      std::memcpy(row, word.data() + t * hidden, hidden * sizeof(float));
    }
  }
}

// x = concat_i T_i[id_i(t)], (T, H), for a share of the part's tokens.
void NgramLayer::GatherRows(Part part, Share share, Scratch& scratch) const {
  const size_t tables = config().tables();
  const size_t first = (part.first + share.begin) * tables;
  tables_.Gather({.ids = std::span<const uint32_t>(scratch.ids)
                             .subspan(first, (share.end - share.begin) * tables),
                  .pins = &scratch.pins,
                  .first = share.begin * tables,
                  .x = scratch.x.begin() + share.begin * projection_.depth(),
                  .stride = projection_.depth()},
                 kernels_);
}

void NgramLayer::CopyWordRow(uint32_t token, float* out) const {
  const size_t hidden = config().hidden;
  const std::byte* row = word_->bytes.data() + token * hidden * ElementBytes(word_->dtype);
  if (word_->dtype == DType::kF32) {
    std::memcpy(out, row, hidden * sizeof(float));
    return;
  }
  const bool half = word_->dtype == DType::kF16;
  for (size_t k = 0; k < hidden; ++k) {
    uint16_t bits;
    std::memcpy(&bits, row + 2 * k, sizeof bits);
    out[k] = half ? HalfToFloat(bits) : Bf16ToFloat(bits);
  }
}

}  // namespace sprat
