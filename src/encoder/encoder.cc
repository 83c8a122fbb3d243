#include "encoder/encoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/cpu_budget.h"
#include "encoder/pooling.h"
#include "kernels/dispatch.h"

namespace sprat {
namespace {

// Tokens of one chunk: its activations stay in L2 next to a panel of weights, and the stream of
// weights costs little beside the arithmetic.
constexpr size_t kChunkTokens{128};
// Rows of one pass through the feed-forward network, whose activations are the widest.
constexpr size_t kFfnRows{64};
// How finely rows are divided between threads.
constexpr size_t kRowsOfItem{16};
constexpr size_t kQueriesOfItem{64};

size_t CeilDiv(size_t n, size_t d) { return (n + d - 1) / d; }

Epilogue EpilogueOf(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return Epilogue::kGelu;
    case Activation::kGeluTanh:
      return Epilogue::kGeluTanh;
    case Activation::kRelu:
      return Epilogue::kRelu;
  }
  return Epilogue::kNone;
}

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Encoder::Encoder(const EncoderConfig& config, const EncoderOptions& options, const Kernels& kernels,
                 std::unique_ptr<ThreadPool> pool, EncoderWeights weights)
    : config_(config),
      options_(options),
      kernels_(kernels),
      pool_(std::move(pool)),
      weights_(std::move(weights)) {}

Result<std::unique_ptr<Encoder>> Encoder::Create(const EncoderConfig& config,
                                                 const EncoderOptions& options,
                                                 const TensorSource& source) {
  EncoderOptions chosen = options;
  if (chosen.max_sequence == 0) chosen.max_sequence = config.positions;
  if (chosen.max_sequence > config.positions) {
    return Invalid("max_sequence " + std::to_string(chosen.max_sequence) + " exceeds the model's " +
                   std::to_string(config.positions) + " positions");
  }
  if (chosen.threads == 0) chosen.threads = CpuBudget();
  Result<const Kernels*> kernels = ActiveKernels();
  if (!kernels.ok()) return std::move(kernels.error());
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Create(chosen.threads);
  if (!pool.ok()) return std::move(pool.error());
  Result<EncoderWeights> weights =
      PackEncoderWeights(config, *kernels.value(), source, *pool.value());
  if (!weights.ok()) return std::move(weights.error());
  std::unique_ptr<Encoder> encoder(new Encoder(
      config, chosen, *kernels.value(), std::move(pool).value(), std::move(weights).value()));
  Result<void> scratch = encoder->AllocateScratch();
  if (!scratch.ok()) return std::move(scratch.error()).In("the encoder's scratch");
  return encoder;
}

Result<void> Encoder::AllocateScratch() {
  const size_t T = std::max(options_.max_sequence, kChunkTokens);
  const size_t H = config_.hidden;
  const size_t sizes[] = {T * H,
                          T * 3 * H,
                          T * H,
                          T * H,
                          std::min(T, kFfnRows) * config_.ffn,
                          kernels_.attention_scratch(options_.max_sequence, H / config_.heads)};
  size_t total = 0;
  for (const size_t size : sizes) total += CeilDiv(size, 16) * 16;
  const size_t threads = pool_->size();
  for (size_t count = threads == 1 ? 1 : threads + 1; count > 0; --count) {
    Result<Buffer<float>> memory = Buffer<float>::Allocate(total);
    if (!memory.ok()) return std::move(memory.error());
    Scratch s{};
    s.memory = std::move(memory).value();
    float* at = s.memory.begin();
    float** const parts[] = {&s.x, &s.qkv, &s.heads, &s.y, &s.ffn, &s.attention};
    for (size_t i = 0; i < std::size(parts); ++i) {
      *parts[i] = at;
      at += CeilDiv(sizes[i], 16) * 16;
    }
    scratch_.push_back(std::move(s));
  }
  position_weight_.resize(options_.max_sequence);
  std::iota(position_weight_.begin(), position_weight_.end(), 1.0f);
  return {};
}

Result<void> Encoder::CheckBatch(const TokenBatch& batch) const {
  CHECK(batch.offsets.front() == 0 && batch.offsets.back() == batch.tokens.size());
  for (size_t i = 0; i < batch.sequences(); ++i) {
    const std::span<const uint32_t> ids = batch.Sequence(i);
    if (ids.empty() || ids.size() > max_sequence()) {
      return Invalid("sequence " + std::to_string(i) + " has " + std::to_string(ids.size()) +
                     " tokens, expected 1 to " + std::to_string(max_sequence()));
    }
    for (const uint32_t id : ids) {
      if (id >= vocabulary_rows()) {
        return Invalid("sequence " + std::to_string(i) + " has token id " + std::to_string(id) +
                       ", expected less than " + std::to_string(vocabulary_rows()));
      }
    }
  }
  return {};
}

Result<void> Encoder::Embed(const TokenBatch& batch, const OutputForm& form,
                            MatrixView<float> out) {
  CHECK(out.rows == batch.sequences());
  CHECK(out.rows == 0 || (out.columns >= 1 && out.columns <= dimensions()));
  return Run(batch, {.pooled = true, .form = form, .out = out});
}

Result<void> Encoder::EmbedEachToken(const TokenBatch& batch, MatrixView<float> out) {
  CHECK(out.rows == batch.tokens.size() && out.columns == dimensions());
  return Run(batch, {.pooled = false, .form = {}, .out = out});
}

Result<void> Encoder::Run(const TokenBatch& batch, const Target& target) {
  Result<void> valid = CheckBatch(batch);
  if (!valid.ok()) return valid;
  PlanChunks(batch.offsets, {.threads = pool_->size(), .tokens = kChunkTokens}, plan_);
  if (dump_.on()) plan_.alone = 0;  // one writer
  std::atomic<size_t> next{0};
  pool_->RunSteps([&](Member& member) {
    const Scratch& own = scratch_[member.rank()];
    WorkSteps one_member(1);
    Member alone(one_member, 0);
    for (size_t i = next++; i < plan_.alone; i = next++) {
      Forward({batch, plan_.chunks[i], own, own.attention, alone}, target);
    }
    // Who is done first begins; the others come when they are.
    for (size_t i = plan_.alone; i < plan_.chunks.size(); ++i) {
      Forward({batch, plan_.chunks[i], scratch_.back(), own.attention, member}, target);
    }
  });
  return dump_.TakeError();
}

void Encoder::Forward(const Work& work, const Target& target) {
  const MatrixView<const float> x(work.s.x, work.tokens(), config_.hidden);
  EmbedTokens(work);
  if (dump_.on()) {
    work.member.ForEach(1, [&](size_t, size_t) { dump_.Begin(work.chunk.first, x); });
  }
  for (const LayerWeights& layer : weights_.layers) {
    Layer(layer, work);
    if (dump_.on()) work.member.ForEach(1, [&](size_t, size_t) { dump_.Layer(x); });
  }
  if (target.pooled) {
    Pool(work, target.form, target.out);
  } else {
    CopyTokens(work, target.out);
  }
}

// x = LN(word + position + type 0)  (BertEmbeddings)
void Encoder::EmbedTokens(const Work& work) const {
  const size_t H = config_.hidden;
  work.member.ForEach(work.tokens(), [&](size_t begin, size_t last) {
    for (size_t i = work.chunk.first; i < work.chunk.end; ++i) {
      const size_t first = std::max(begin, work.FirstToken(i));
      const size_t end = std::min(last, work.FirstToken(i + 1));
      if (first >= end) continue;
      const size_t position = first - work.FirstToken(i);
      const std::span<const uint32_t> ids = work.batch.Sequence(i).subspan(position, end - first);
      for (size_t t = 0; t < ids.size(); ++t) {
        std::copy_n(weights_.words.Row(ids[t]), H, work.s.x + (first + t) * H);
      }
      kernels_.add_layer_norm({.x = work.s.x + first * H,
                               .x_stride = H,
                               .y = weights_.positions.Row(position),
                               .y_stride = H,
                               .rows = ids.size(),
                               .columns = H,
                               .gamma = weights_.norm.gamma,
                               .beta = weights_.norm.beta,
                               .eps = config_.layer_norm_eps});
    }
  });
}

// One layer, post-norm, in place on s.x (Vaswani et al. 2017, arXiv:1706.03762, section 3.1;
// BertLayer in Hugging Face transformers).
void Encoder::Layer(const LayerWeights& w, const Work& work) const {
  const size_t T = work.tokens();
  const size_t H = config_.hidden;
  const size_t F = config_.ffn;
  const Scratch& s = work.s;
  const MatrixView<float> x(s.x, T, H);
  const MatrixView<float> y(s.y, T, H);

  Linear(w.qkv, x, Epilogue::kNone, {s.qkv, T, 3 * H}, work);  // (T, H) . (3H, H)^T
  Attend(work);                                                // (T, 3H) -> (T, H)
  Linear(w.out, {s.heads, T, H}, Epilogue::kNone, y, work);    // (T, H) . (H, H)^T
  AddLayerNorm(y, w.norm1, x, work);                           // x = LN(x + y)
  for (size_t first = 0; first < T; first += kFfnRows) {
    const size_t rows = std::min(T - first, kFfnRows);
    const MatrixView<float> ffn(s.ffn, rows, F);
    Linear(w.up, x.Rows(first, rows), EpilogueOf(config_.activation), ffn, work);
    Linear(w.down, ffn, Epilogue::kNone, y.Rows(first, rows), work);  // (F) -> (H)
  }
  AddLayerNorm(y, w.norm2, x, work);  // x = LN(x + y)
}

// Every head of every sequence by itself, an item being up to kQueriesOfItem queries of one head.
void Encoder::Attend(const Work& work) const {
  size_t items = 0;
  for (size_t i = work.chunk.first; i < work.chunk.end; ++i) {
    items += config_.heads * CeilDiv(work.batch.Sequence(i).size(), kQueriesOfItem);
  }
  work.member.ForEach(items, [&](size_t begin, size_t end) { AttendItems({begin, end}, work); });
}

// Items are numbered by sequence, then head, then queries.
void Encoder::AttendItems(Share share, const Work& work) const {
  const size_t H = config_.hidden;
  const size_t D = H / config_.heads;
  size_t item = 0;
  for (size_t i = work.chunk.first; i < work.chunk.end && item < share.end; ++i) {
    const size_t S = work.batch.Sequence(i).size();
    const float* q = work.s.qkv + work.FirstToken(i) * 3 * H;
    for (size_t head = 0; head < config_.heads; ++head) {
      for (size_t first = 0; first < S; first += kQueriesOfItem, ++item) {
        if (item < share.begin || item >= share.end) continue;
        kernels_.attention({.q = q + head * D,
                            .k = q + H + head * D,
                            .v = q + 2 * H + head * D,
                            .stride = 3 * H,
                            .keys = S,
                            .head_size = D,
                            .first_query = first,
                            .queries = std::min(S - first, kQueriesOfItem),
                            .out = work.s.heads + work.FirstToken(i) * H + head * D,
                            .out_stride = H,
                            .scratch = work.attention});
      }
    }
  }
}

// y = epilogue(x . W^T + b). An item is a block of rows and one panel of W; consecutive items are
// whole panels as far as possible, so that each is read by one core.
void Encoder::Linear(const PackedWeights& w, MatrixView<const float> x, Epilogue epilogue,
                     MatrixView<float> y, const Work& work) const {
  const size_t panels = CeilDiv(w.out, kernels_.panel_rows);
  const size_t blocks = CeilDiv(x.rows, kRowsOfItem);
  work.member.ForEach(panels * blocks, [&](size_t item, size_t end) {
    while (item < end) {
      const size_t block = item % blocks;
      const size_t whole_panels = block == 0 ? (end - item) / blocks : 0;
      const size_t end_block = whole_panels > 0 ? blocks : std::min(blocks, block + end - item);
      const size_t first_row = block * kRowsOfItem;
      const size_t panel_count = std::max<size_t>(1, whole_panels);
      kernels_.linear({.x = x.Row(first_row),
                       .x_stride = x.stride,
                       .rows = std::min(x.rows, end_block * kRowsOfItem) - first_row,
                       .weights = w,
                       .first_panel = item / blocks,
                       .panels = panel_count,
                       .epilogue = epilogue,
                       .y = y.Row(first_row),
                       .y_stride = y.stride});
      item += (end_block - block) * panel_count;
    }
  });
}

void Encoder::AddLayerNorm(MatrixView<const float> y, const NormWeights& norm, MatrixView<float> x,
                           const Work& work) const {
  work.member.ForEach(x.rows, [&](size_t begin, size_t end) {
    kernels_.add_layer_norm({.x = x.Row(begin),
                             .x_stride = x.stride,
                             .y = y.Row(begin),
                             .y_stride = y.stride,
                             .rows = end - begin,
                             .columns = x.columns,
                             .gamma = norm.gamma,
                             .beta = norm.beta,
                             .eps = config_.layer_norm_eps});
  });
}

void Encoder::Pool(const Work& work, const OutputForm& form, MatrixView<float> out) const {
  work.member.ForEach(work.chunk.end - work.chunk.first, [&](size_t begin, size_t end) {
    for (size_t i = work.chunk.first + begin; i < work.chunk.first + end; ++i) {
      const size_t S = work.batch.Sequence(i).size();
      const float* x = work.s.x + work.FirstToken(i) * config_.hidden;
      PoolSequence(kernels_, options_.pooling, {x, S, config_.hidden}, position_weight_,
                   out.RowSpan(i));
      if (form.normalize) kernels_.l2_normalize(out.Row(i), out.columns);
    }
  });
}

void Encoder::CopyTokens(const Work& work, MatrixView<float> out) const {
  const size_t H = config_.hidden;
  const size_t first = work.batch.offsets[work.chunk.first];
  work.member.ForEach(work.tokens(), [&](size_t begin, size_t end) {
    for (size_t t = begin; t < end; ++t) std::copy_n(work.s.x + t * H, H, out.Row(first + t));
  });
}

}  // namespace sprat
