#include "sprat/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/batch_plan.h"
#include "engine/loaded_model.h"
#include "engine/submissions.h"
#include "engine/vector_check.h"

namespace sprat {
namespace {

// Texts are tokenized, sorted and run in windows, so that memory is bounded by these numbers and
// not by the caller's array.
constexpr size_t kWindowTexts{1024};
constexpr size_t kWindowTokens{65536};

// Memory of one call, reused by the next.
struct Workspace {
  std::string prompted;         // prompt + text
  std::vector<uint32_t> ids;    // of the texts of a window, end to end
  std::vector<size_t> offsets;  // of each text in `ids`, one more than texts
  std::vector<size_t> lengths;
  BatchPlan plan;
  TokenBatch batch;
  std::vector<float> rows;  // vectors of a batch, in its order

  void StartWindow() {
    ids.clear();
    offsets.assign(1, 0);
    lengths.clear();
  }
  void EndText() {
    lengths.push_back(ids.size() - offsets.back());
    offsets.push_back(ids.size());
  }
};

// A static model's short text takes microseconds, less than waking another thread; an encoder's
// takes long enough to keep a network thread from its other clients.
size_t InlineTokens(const EngineInfo& info) {
  constexpr size_t kShort{512};
  return info.family == "static" ? kShort : 0;
}

// The length in bytes of the first `characters` code points of `text`, UTF-8 or not.
size_t BytesOfCharacters(std::string_view text, size_t characters) {
  if (text.size() <= characters) return text.size();
  size_t bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<uint8_t>(text[bytes]) & 0xc0) != 0x80;
    if (starts && characters-- == 0) break;
  }
  return bytes;
}

double Microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

Error At(size_t text, Error error) { return std::move(error).In("text " + std::to_string(text)); }

Result<void> CheckOffsets(size_t ids, std::span<const size_t> offsets) {
  const bool valid = !offsets.empty() && offsets.front() == 0 && offsets.back() == ids &&
                     std::is_sorted(offsets.begin(), offsets.end());
  if (valid) return {};
  return Error(ErrorCode::kInvalidArgument,
               "offsets must rise from 0 to the number of ids, " + std::to_string(ids));
}

}  // namespace

class Engine::Impl {
 public:
  Impl(LoadedModel loaded, const EngineOptions& options)
      : loaded_(std::move(loaded)),
        parse_special_tokens_(options.parse_special_tokens),
        submissions_(*loaded_.model, device_mutex_, options.batch, InlineTokens(loaded_.info)) {}

  const EngineInfo& info() const { return loaded_.info; }

  Result<void> Embed(std::span<const std::string_view> texts, const EmbedOptions& options,
                     Embeddings& out);
  Result<void> EmbedTokens(std::span<const uint32_t> ids, std::span<const size_t> offsets,
                           const EmbedOptions& options, Embeddings& out);
  // The job of a request, ready to be submitted.
  Result<std::shared_ptr<EmbedJob>> MakeJob(std::span<const std::string_view> texts,
                                            const EmbedOptions& options);
  Result<std::shared_ptr<EmbedJob>> MakeJob(std::span<const uint32_t> ids,
                                            std::span<const size_t> offsets,
                                            const EmbedOptions& options);
  Result<std::vector<QueryStages>> Attribute(std::string_view text, size_t calls,
                                             const EmbedOptions& options);
  Submissions& submissions() { return submissions_; }
  Result<Tokens> Tokenize(std::string_view text, const EmbedOptions& options,
                          std::optional<size_t> max_length);
  Result<std::string> Fingerprint();

 private:
  Result<std::string_view> Prompt(const EmbedOptions& options) const;
  Result<size_t> Columns(const EmbedOptions& options) const;
  Result<TokenizedLength> TokenizeText(std::string_view text, std::string_view prompt,
                                       bool truncate, Workspace& work) const;
  Result<TokenizedLength> ToIds(std::string_view text, size_t max_tokens,
                                std::vector<uint32_t>& ids) const;
  Result<void> CheckTokens(size_t sequence, std::span<const uint32_t> ids) const;
  Result<void> RunWindow(const EmbedOptions& options, size_t first_row, Workspace& work,
                         Embeddings& out);
  Result<QueryStages> TakeApart(const TokenBatch& batch, const OutputForm& form,
                                std::vector<float>& row);

  std::unique_ptr<Workspace> TakeWorkspace();
  void ReturnWorkspace(std::unique_ptr<Workspace> work);

  LoadedModel loaded_;
  const bool parse_special_tokens_;

  std::mutex device_mutex_;  // held while the model computes a batch: calls take turns

  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;  // guarded by idle_mutex_

  std::mutex fingerprint_mutex_;
  std::optional<std::string> fingerprint_;  // guarded by fingerprint_mutex_

  Submissions submissions_;  // last: it ends before what its batches use
};

Result<std::string_view> Engine::Impl::Prompt(const EmbedOptions& options) const {
  if (options.prompt && options.prompt_name) {
    return Error(ErrorCode::kInvalidArgument, "prompt and prompt_name exclude each other");
  }
  if (options.prompt) return std::string_view(*options.prompt);
  const std::optional<std::string>& name =
      options.prompt_name ? options.prompt_name : loaded_.sentence.default_prompt_name;
  if (!name) return std::string_view();
  const auto found = loaded_.sentence.prompts.find(*name);
  if (found != loaded_.sentence.prompts.end()) return std::string_view(found->second);
  std::string known;
  for (const auto& [prompt_name, text] : loaded_.sentence.prompts) {
    known += (known.empty() ? "'" : ", '") + prompt_name + "'";
  }
  return Error(ErrorCode::kInvalidArgument,
               "unknown prompt name '" + *name + "', expected " +
                   (known.empty() ? "none: this model has no prompts" : "one of " + known));
}

Result<size_t> Engine::Impl::Columns(const EmbedOptions& options) const {
  const size_t all = loaded_.model->dimensions();
  if (!options.dimensions) return all;
  if (*options.dimensions < 1 || *options.dimensions > all) {
    return Error(ErrorCode::kInvalidArgument, "dimensions must be between 1 and " +
                                                  std::to_string(all) + ", got " +
                                                  std::to_string(*options.dimensions));
  }
  return *options.dimensions;
}

// Appends the ids of prompt + text to work.ids.
Result<TokenizedLength> Engine::Impl::TokenizeText(std::string_view text, std::string_view prompt,
                                                   bool truncate, Workspace& work) const {
  const size_t limit = loaded_.model->max_sequence();
  if (!prompt.empty()) {
    work.prompted.assign(prompt).append(text);
    text = work.prompted;
  }
  const size_t max_tokens = truncate && limit != std::numeric_limits<size_t>::max() ? limit : 0;
  Result<TokenizedLength> length = ToIds(text, max_tokens, work.ids);
  if (length.ok() && length.value().tokens > limit) {
    return Error(ErrorCode::kTooLong, std::to_string(length.value().tokens) +
                                          " tokens, expected at most the model's maximum of " +
                                          std::to_string(limit));
  }
  return length;
}

// The family's rule: cut to the characters that count, tokenize, cut to max_tokens (0: no limit),
// drop the unknown.
Result<TokenizedLength> Engine::Impl::ToIds(std::string_view text, size_t max_tokens,
                                            std::vector<uint32_t>& ids) const {
  const TextRule& rule = loaded_.text_rule;
  size_t kept_bytes = text.size();
  if (max_tokens != 0 && rule.max_characters != 0) {
    kept_bytes = BytesOfCharacters(text, rule.max_characters);
    if (kept_bytes < text.size()) {
      if (const auto invalid = FindInvalidUtf8(text)) {
        return Error(ErrorCode::kInvalidArgument,
                     "the text is not UTF-8 at byte " + std::to_string(*invalid));
      }
    }
  }
  const TokenizeOptions options{.max_tokens = max_tokens,
                                .add_special_tokens = rule.add_special_tokens,
                                .parse_special_tokens = parse_special_tokens_};
  const size_t before = ids.size();
  Result<TokenizedLength> length =
      loaded_.tokenizer->Tokenize(text.substr(0, kept_bytes), options, ids);
  if (!length.ok()) return length;
  if (kept_bytes < text.size()) length.value().truncated = true;
  if (rule.dropped_id) {
    const auto first = ids.begin() + static_cast<ptrdiff_t>(before);
    ids.erase(std::remove(first, ids.end(), *rule.dropped_id), ids.end());
    length.value().tokens = ids.size() - before;
  }
  return length;
}

Result<void> Engine::Impl::Embed(std::span<const std::string_view> texts,
                                 const EmbedOptions& options, Embeddings& out) {
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  out.dimensions = columns.value();
  out.values.resize(texts.size() * columns.value());
  out.tokens.resize(texts.size());
  out.truncated.resize(texts.size());

  std::unique_ptr<Workspace> work = TakeWorkspace();
  Result<void> done;
  for (size_t first = 0; first < texts.size() && done.ok(); first += work->lengths.size()) {
    work->StartWindow();
    for (size_t i = first; i < texts.size() && done.ok(); ++i) {
      if (work->lengths.size() == kWindowTexts || work->ids.size() >= kWindowTokens) break;
      Result<TokenizedLength> length =
          TokenizeText(texts[i], prompt.value(), options.truncate, *work);
      if (!length.ok()) {
        done = At(i, std::move(length.error()));
        break;
      }
      out.tokens[i] = static_cast<uint32_t>(length.value().tokens);
      out.truncated[i] = length.value().truncated ? 1 : 0;
      work->EndText();
    }
    if (done.ok()) done = RunWindow(options, first, *work, out);
  }
  ReturnWorkspace(std::move(work));
  return done;
}

Result<void> Engine::Impl::CheckTokens(size_t sequence, std::span<const uint32_t> ids) const {
  const size_t limit = loaded_.model->max_sequence();
  if (ids.empty() || ids.size() > limit) {
    return At(sequence, Error(ErrorCode::kInvalidArgument, std::to_string(ids.size()) +
                                                               " token ids, expected 1 to " +
                                                               std::to_string(limit)));
  }
  const size_t rows = loaded_.model->vocabulary_rows();
  for (const uint32_t id : ids) {
    if (id >= rows) {
      return At(sequence, Error(ErrorCode::kInvalidArgument, "token id " + std::to_string(id) +
                                                                 ", expected less than " +
                                                                 std::to_string(rows)));
    }
  }
  return {};
}

Result<void> Engine::Impl::EmbedTokens(std::span<const uint32_t> ids,
                                       std::span<const size_t> offsets, const EmbedOptions& options,
                                       Embeddings& out) {
  if (Result<void> valid = CheckOffsets(ids.size(), offsets); !valid.ok()) {
    return std::move(valid.error());
  }
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  const size_t sequences = offsets.size() - 1;
  out.dimensions = columns.value();
  out.values.resize(sequences * columns.value());
  out.tokens.resize(sequences);
  out.truncated.assign(sequences, 0);

  std::unique_ptr<Workspace> work = TakeWorkspace();
  Result<void> done;
  for (size_t first = 0; first < sequences && done.ok(); first += work->lengths.size()) {
    work->StartWindow();
    for (size_t i = first; i < sequences && done.ok(); ++i) {
      if (work->lengths.size() == kWindowTexts || work->ids.size() >= kWindowTokens) break;
      const auto sequence = ids.subspan(offsets[i], offsets[i + 1] - offsets[i]);
      done = CheckTokens(i, sequence);
      out.tokens[i] = static_cast<uint32_t>(sequence.size());
      work->ids.insert(work->ids.end(), sequence.begin(), sequence.end());
      work->EndText();
    }
    if (done.ok()) done = RunWindow(options, first, *work, out);
  }
  ReturnWorkspace(std::move(work));
  return done;
}

// Runs the texts of a window, whose vectors are the rows of `out` from first_row on.
Result<void> Engine::Impl::RunWindow(const EmbedOptions& options, size_t first_row, Workspace& work,
                                     Embeddings& out) {
  PlanBatches(work.lengths, loaded_.batch_tokens, work.plan);
  const OutputForm form{.normalize = options.normalize.value_or(true)};
  const size_t columns = out.dimensions;
  for (size_t b = 0; b < work.plan.batches(); ++b) {
    const std::span<const uint32_t> members = work.plan.Batch(b);
    work.batch.clear();
    for (const uint32_t i : members) {
      work.batch.Append({work.ids.data() + work.offsets[i], work.lengths[i]});
    }
    work.rows.resize(std::max(work.rows.size(), members.size() * columns));
    {
      const std::lock_guard<std::mutex> device(device_mutex_);
      Result<void> embedded =
          loaded_.model->Embed(work.batch, form, {work.rows.data(), members.size(), columns});
      if (!embedded.ok()) return embedded;
    }
    for (size_t i = 0; i < members.size(); ++i) {
      std::copy_n(work.rows.data() + i * columns, columns,
                  out.values.data() + (first_row + members[i]) * columns);
    }
  }
  return CheckVectors(out, first_row, work.lengths.size());
}

Result<std::shared_ptr<EmbedJob>> Engine::Impl::MakeJob(std::span<const std::string_view> texts,
                                                        const EmbedOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  Embeddings rows;
  rows.dimensions = columns.value();
  Workspace work;
  for (size_t i = 0; i < texts.size(); ++i) {
    Result<TokenizedLength> length = TokenizeText(texts[i], prompt.value(), options.truncate, work);
    if (!length.ok()) return At(i, std::move(length.error()));
    rows.tokens.push_back(static_cast<uint32_t>(length.value().tokens));
    rows.truncated.push_back(length.value().truncated ? 1 : 0);
  }
  rows.values.resize(rows.rows() * rows.dimensions);
  auto job = std::make_shared<EmbedJob>(std::move(work.ids), options.normalize.value_or(true),
                                        std::move(rows));
  job->tokenization = std::chrono::steady_clock::now() - begin;
  return job;
}

Result<std::shared_ptr<EmbedJob>> Engine::Impl::MakeJob(std::span<const uint32_t> ids,
                                                        std::span<const size_t> offsets,
                                                        const EmbedOptions& options) {
  if (Result<void> valid = CheckOffsets(ids.size(), offsets); !valid.ok()) {
    return std::move(valid.error());
  }
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  Embeddings rows;
  rows.dimensions = columns.value();
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto sequence = ids.subspan(offsets[i], offsets[i + 1] - offsets[i]);
    if (Result<void> valid = CheckTokens(i, sequence); !valid.ok()) {
      return std::move(valid.error());
    }
    rows.tokens.push_back(static_cast<uint32_t>(sequence.size()));
  }
  rows.truncated.resize(rows.rows());
  rows.values.resize(rows.rows() * rows.dimensions);
  return std::make_shared<EmbedJob>(std::vector<uint32_t>(ids.begin(), ids.end()),
                                    options.normalize.value_or(true), std::move(rows));
}

Result<Tokens> Engine::Impl::Tokenize(std::string_view text, const EmbedOptions& options,
                                      std::optional<size_t> max_length) {
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  const std::string prompted = std::string(prompt.value()).append(text);
  Tokens tokens;
  const size_t limit = max_length.value_or(loaded_.model->max_sequence());
  Result<TokenizedLength> length =
      ToIds(prompted, limit == std::numeric_limits<size_t>::max() ? 0 : limit, tokens.ids);
  if (!length.ok()) return std::move(length.error());
  tokens.truncated = length.value().truncated;
  for (const uint32_t id : tokens.ids) {
    tokens.texts.emplace_back(loaded_.tokenizer->Token(id).value_or(""));
  }
  return tokens;
}

// One call on the CPU, or what the GPU says of its own; `batch` is one text.
Result<QueryStages> Engine::Impl::TakeApart(const TokenBatch& batch, const OutputForm& form,
                                            std::vector<float>& row) {
  const std::lock_guard<std::mutex> device(device_mutex_);
  QueryStages stages;
  if (loaded_.gpu != nullptr) {
    Result<gpu::QueryTimes> times = loaded_.gpu->TimeQuery(batch, 0);
    if (!times.ok()) return std::move(times.error());
    stages.copy_in = times.value().prepare;
    stages.enqueue = times.value().enqueue;
    stages.wake = times.value().wait;
    stages.copy_out = times.value().finish;
    return stages;
  }
  const auto begin = std::chrono::steady_clock::now();
  Result<void> done = loaded_.model->Embed(batch, form, {row.data(), 1, row.size()});
  if (!done.ok()) return std::move(done.error());
  stages.forward = Microseconds(std::chrono::steady_clock::now() - begin);
  return stages;
}

Result<std::vector<QueryStages>> Engine::Impl::Attribute(std::string_view text, size_t calls,
                                                         const EmbedOptions& options) {
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  std::vector<float> row(columns.value());
  Workspace work;
  std::vector<QueryStages> all;
  for (size_t i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work.StartWindow();
    Result<TokenizedLength> length = TokenizeText(text, prompt.value(), options.truncate, work);
    if (!length.ok()) return std::move(length.error());
    work.batch.clear();
    work.batch.Append(work.ids);
    const double tokenize = Microseconds(std::chrono::steady_clock::now() - begin);
    Result<QueryStages> stages =
        TakeApart(work.batch, {.normalize = options.normalize.value_or(true)}, row);
    if (!stages.ok()) return std::move(stages.error());
    stages.value().tokenize = tokenize;
    all.push_back(stages.value());
  }
  if (loaded_.gpu == nullptr || all.empty()) return all;
  constexpr int kRuns{200};
  const std::lock_guard<std::mutex> device(device_mutex_);
  Result<double> seconds = loaded_.gpu->TimeDevice(work.batch, kRuns);
  if (!seconds.ok()) return std::move(seconds.error());
  for (QueryStages& stages : all) {
    stages.forward = std::min(stages.wake, seconds.value() * 1e6);
    stages.wake -= stages.forward;
  }
  return all;
}

Result<std::string> Engine::Impl::Fingerprint() {
  const std::lock_guard<std::mutex> lock(fingerprint_mutex_);
  if (!fingerprint_) {
    Result<std::string> computed = loaded_.fingerprint();
    if (!computed.ok()) return computed;
    fingerprint_ = std::move(computed).value();
  }
  return *fingerprint_;
}

std::unique_ptr<Workspace> Engine::Impl::TakeWorkspace() {
  const std::lock_guard<std::mutex> lock(idle_mutex_);
  if (idle_.empty()) return std::make_unique<Workspace>();
  std::unique_ptr<Workspace> work = std::move(idle_.back());
  idle_.pop_back();
  return work;
}

void Engine::Impl::ReturnWorkspace(std::unique_ptr<Workspace> work) {
  const std::lock_guard<std::mutex> lock(idle_mutex_);
  idle_.push_back(std::move(work));
}

Result<Engine> Engine::Open(const std::filesystem::path& directory, const EngineOptions& options) {
  std::error_code status_error;
  const auto status = std::filesystem::status(directory, status_error);
  if (!std::filesystem::exists(status)) {
    return Error(ErrorCode::kNotFound, directory.string() + ": no such model directory");
  }
  if (!std::filesystem::is_directory(status)) {
    return Error(ErrorCode::kNotFound,
                 directory.string() + ": a file, expected the directory that holds the model");
  }
  if (Result<void> valid = CheckLimits(ToLimits(options.batch, 0)); !valid.ok()) {
    return std::move(valid.error()).In("batch");
  }
  Result<LoadedModel> loaded =
      IsStatic(directory) ? LoadStatic(directory, options) : LoadEncoder(directory, options);
  if (!loaded.ok()) return std::move(loaded.error());
  return Engine(std::make_unique<Impl>(std::move(loaded).value(), options));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<void> Engine::EmbedInto(std::span<const std::string_view> texts, const EmbedOptions& options,
                               Embeddings& out) const {
  Result<void> done = impl_->Embed(texts, options, out);
  if (!done.ok()) out = {};
  return done;
}

Result<Embeddings> Engine::Embed(std::span<const std::string_view> texts,
                                 const EmbedOptions& options) const {
  Embeddings embeddings;
  Result<void> done = impl_->Embed(texts, options, embeddings);
  if (!done.ok()) return std::move(done.error());
  return embeddings;
}

Result<Embeddings> Engine::EmbedOne(std::string_view text, const EmbedOptions& options) const {
  return Embed({&text, 1}, options);
}

Result<Embeddings> Engine::EmbedTokens(std::span<const uint32_t> ids,
                                       std::span<const size_t> offsets,
                                       const EmbedOptions& options) const {
  Embeddings embeddings;
  Result<void> done = impl_->EmbedTokens(ids, offsets, options, embeddings);
  if (!done.ok()) return std::move(done.error());
  return embeddings;
}

Result<Tokens> Engine::Tokenize(std::string_view text, const EmbedOptions& options,
                                std::optional<size_t> max_length) const {
  return impl_->Tokenize(text, options, max_length);
}

Result<std::vector<QueryStages>> Engine::Attribute(std::string_view text, size_t calls,
                                                   const EmbedOptions& options) const {
  return impl_->Attribute(text, calls, options);
}

Result<std::string> Engine::Fingerprint() const { return impl_->Fingerprint(); }

Ticket Engine::Submit(std::span<const std::string_view> texts, const EmbedOptions& options,
                      EmbedCallback callback) const {
  return Ticket(impl_->submissions().Submit(impl_->MakeJob(texts, options), std::move(callback)));
}

Ticket Engine::Submit(std::string_view text, const EmbedOptions& options,
                      EmbedCallback callback) const {
  return Submit(std::span(&text, 1), options, std::move(callback));
}

Ticket Engine::SubmitTokens(std::span<const uint32_t> ids, std::span<const size_t> offsets,
                            const EmbedOptions& options, EmbedCallback callback) const {
  return Ticket(
      impl_->submissions().Submit(impl_->MakeJob(ids, offsets, options), std::move(callback)));
}

void Engine::Cancel(const Ticket& ticket) const {
  if (ticket.request_ == nullptr) return;
  impl_->submissions().Cancel(std::static_pointer_cast<Job>(ticket.request_));
}

QueueDepth Engine::queued() const { return impl_->submissions().queued(); }

const EngineInfo& Engine::info() const { return impl_->info(); }

}  // namespace sprat
