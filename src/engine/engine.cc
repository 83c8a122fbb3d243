#include "sprat/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "base/huge_pages.h"
#include "engine/loaded_model.h"
#include "engine/query_stages.h"
#include "engine/sorted_batches.h"
#include "engine/static_texts.h"
#include "engine/submissions.h"
#include "engine/text_ids.h"
#include "engine/token_check.h"
#include "engine/vector_check.h"

namespace sprat {
namespace {

// Memory of one call, reused by the next.
struct Workspace {
  TextWindow window;
  SortedBatches sorted;
  std::vector<StaticPart> static_parts;
};

// A static model's short text takes microseconds, less than waking another thread; an encoder's
// takes long enough to keep a network thread from its other clients.
size_t InlineTokens(const EngineInfo& info) {
  constexpr size_t kShort{512};
  return info.family == "static" ? kShort : 0;
}

Error At(size_t text, Error error) { return std::move(error).In("text " + std::to_string(text)); }

}  // namespace

class Engine::Impl {
 public:
  Impl(LoadedModel loaded, const EngineOptions& options)
      : loaded_(std::move(loaded)),
        text_ids_(*loaded_.tokenizer, loaded_.text_rule, loaded_.model->max_sequence(),
                  options.parse_special_tokens),
        submissions_(
            *loaded_.model, device_mutex_, options.batch,
            {.inline_tokens = InlineTokens(loaded_.info), .call_tokens = loaded_.batch_tokens}) {}

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
  Result<std::vector<float>> EmbedEachToken(std::span<const uint32_t> ids,
                                            std::span<const size_t> offsets);
  const Tokenizer& tokenizer() const { return *loaded_.tokenizer; }
  Result<std::string> Fingerprint();

 private:
  Result<std::string_view> Prompt(const EmbedOptions& options) const;
  Result<size_t> Columns(const EmbedOptions& options) const;
  OutputForm Form(const EmbedOptions& options) const {
    return {.normalize = options.normalize.value_or(loaded_.normalizes)};
  }
  ThreadPool* FreeThreads(std::span<const std::string_view> texts,
                          std::unique_lock<std::mutex>& device);
  Result<void> RunTexts(std::span<const std::string_view> texts, const TextForm& form,
                        const EmbedOptions& options, Workspace& work, Embeddings& out);
  Result<void> FillWindow(std::span<const std::string_view> texts, size_t first, size_t count,
                          const TextForm& form, TextWindow& window, Embeddings& out);
  Result<void> RunWindow(const EmbedOptions& options, size_t first_row, Workspace& work,
                         Embeddings& out);

  std::unique_ptr<Workspace> TakeWorkspace();
  void ReturnWorkspace(std::unique_ptr<Workspace> work);

  LoadedModel loaded_;
  const TextIds text_ids_;

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

// The model's threads, where they pay and are free: the model may be computing for another call.
// `device` is locked if they are returned.
ThreadPool* Engine::Impl::FreeThreads(std::span<const std::string_view> texts,
                                      std::unique_lock<std::mutex>& device) {
  ThreadPool* pool = loaded_.model->pool();
  if (pool == nullptr || pool->size() == 1 || !TextIds::WorthThreads(texts)) return nullptr;
  return device.try_lock() ? pool : nullptr;
}

Result<void> Engine::Impl::FillWindow(std::span<const std::string_view> texts, size_t first,
                                      size_t count, const TextForm& form, TextWindow& window,
                                      Embeddings& out) {
  std::unique_lock<std::mutex> device(device_mutex_, std::defer_lock);
  ThreadPool* pool = FreeThreads(texts.subspan(first, count), device);
  return text_ids_.Fill(texts, first, count, form, pool, window, out);
}

// Texts of a static model run as they come; the others in windows, sorted by length.
Result<void> Engine::Impl::RunTexts(std::span<const std::string_view> texts, const TextForm& form,
                                    const EmbedOptions& options, Workspace& work, Embeddings& out) {
  if (loaded_.static_model != nullptr) {
    std::unique_lock<std::mutex> device(device_mutex_, std::defer_lock);
    return EmbedStaticTexts(text_ids_, *loaded_.static_model, texts, form, Form(options),
                            FreeThreads(texts, device), work.static_parts, out);
  }
  Result<void> done;
  for (size_t first = 0; first < texts.size() && done.ok(); first += work.window.lengths.size()) {
    const size_t count = text_ids_.WindowSize(texts.subspan(first), form.prompt.size());
    done = FillWindow(texts, first, count, form, work.window, out);
    if (done.ok()) done = RunWindow(options, first, work, out);
  }
  return done;
}

Result<void> Engine::Impl::Embed(std::span<const std::string_view> texts,
                                 const EmbedOptions& options, Embeddings& out) {
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  out.dimensions = columns.value();
  out.values.reserve(texts.size() * columns.value());
  AskForHugePages(out.values.data(), texts.size() * columns.value() * sizeof(float));
  out.values.resize(texts.size() * columns.value());
  out.tokens.resize(texts.size());
  out.truncated.resize(texts.size());
  const TextForm form{.prompt = prompt.value(), .truncate = options.truncate};
  std::unique_ptr<Workspace> work = TakeWorkspace();
  Result<void> done = RunTexts(texts, form, options, *work, out);
  ReturnWorkspace(std::move(work));
  return done;
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
  TextWindow& window = work->window;
  for (size_t first = 0; first < sequences && done.ok(); first += window.lengths.size()) {
    window.Start(0);
    for (size_t i = first; i < sequences && done.ok(); ++i) {
      if (window.lengths.size() == TextIds::kWindowTexts ||
          window.batch.tokens.size() >= TextIds::kWindowTokens) {
        break;
      }
      const auto sequence = ids.subspan(offsets[i], offsets[i + 1] - offsets[i]);
      done = CheckTokens(*loaded_.model, i, sequence);
      out.tokens[i] = static_cast<uint32_t>(sequence.size());
      window.batch.Append(sequence);
      window.lengths.push_back(sequence.size());
    }
    if (done.ok()) done = RunWindow(options, first, *work, out);
  }
  ReturnWorkspace(std::move(work));
  return done;
}

Result<std::vector<float>> Engine::Impl::EmbedEachToken(std::span<const uint32_t> ids,
                                                        std::span<const size_t> offsets) {
  Result<void> valid = CheckOffsets(ids.size(), offsets);
  TokenBatch batch;
  for (size_t i = 0; valid.ok() && i + 1 < offsets.size(); ++i) {
    const auto sequence = ids.subspan(offsets[i], offsets[i + 1] - offsets[i]);
    if (sequence.empty()) continue;
    valid = CheckTokens(*loaded_.model, i, sequence);
    batch.Append(sequence);
  }
  if (!valid.ok()) return std::move(valid.error());
  Embeddings rows;  // of tokens
  rows.dimensions = loaded_.model->dimensions();
  rows.tokens.assign(ids.size(), 1);
  rows.values.resize(ids.size() * rows.dimensions);
  const std::lock_guard<std::mutex> device(device_mutex_);
  Result<void> done =
      loaded_.model->EmbedEachToken(batch, {rows.values.data(), ids.size(), rows.dimensions});
  if (done.ok()) done = CheckVectors(rows, 0, ids.size());
  if (!done.ok()) return std::move(done.error()).In("vectors of single tokens");
  return std::move(rows.values);
}

// Runs the texts of a window, whose vectors are the rows of `out` from first_row on.
Result<void> Engine::Impl::RunWindow(const EmbedOptions& options, size_t first_row, Workspace& work,
                                     Embeddings& out) {
  const OutputForm form = Form(options);
  const size_t columns = out.dimensions;
  const TextWindow& window = work.window;
  const size_t texts = window.lengths.size();
  if (!loaded_.sorts_by_length) {
    const std::lock_guard<std::mutex> device(device_mutex_);
    Result<void> embedded = loaded_.model->Embed(
        window.batch, form, {out.values.data() + first_row * columns, texts, columns});
    return embedded.ok() ? CheckVectors(out, first_row, texts) : embedded;
  }
  work.sorted.clear();
  for (size_t i = 0; i < texts; ++i) {
    work.sorted.Add(window.batch.Sequence(i), out.values.data() + (first_row + i) * columns);
  }
  Result<void> run = work.sorted.Run(*loaded_.model, {.form = form,
                                                      .columns = columns,
                                                      .max_tokens = loaded_.batch_tokens,
                                                      .device = &device_mutex_});
  return run.ok() ? CheckVectors(out, first_row, texts) : run;
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
  const TextForm form{.prompt = prompt.value(), .truncate = options.truncate};
  std::vector<uint32_t> ids;
  std::string prompted;
  for (size_t i = 0; i < texts.size(); ++i) {
    Result<TokenizedLength> length = text_ids_.Append(texts[i], form, prompted, ids);
    if (!length.ok()) return At(i, std::move(length.error()));
    rows.tokens.push_back(static_cast<uint32_t>(length.value().tokens));
    rows.truncated.push_back(length.value().truncated ? 1 : 0);
  }
  rows.values.resize(rows.rows() * rows.dimensions);
  auto job = std::make_shared<EmbedJob>(std::move(ids), Form(options).normalize, std::move(rows));
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
    if (Result<void> valid = CheckTokens(*loaded_.model, i, sequence); !valid.ok()) {
      return std::move(valid.error());
    }
    rows.tokens.push_back(static_cast<uint32_t>(sequence.size()));
  }
  rows.truncated.resize(rows.rows());
  rows.values.resize(rows.rows() * rows.dimensions);
  return std::make_shared<EmbedJob>(std::vector<uint32_t>(ids.begin(), ids.end()),
                                    Form(options).normalize, std::move(rows));
}

Result<Tokens> Engine::Impl::Tokenize(std::string_view text, const EmbedOptions& options,
                                      std::optional<size_t> max_length) {
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  const std::string prompted = std::string(prompt.value()).append(text);
  Tokens tokens;
  const size_t limit = max_length.value_or(loaded_.model->max_sequence());
  Result<TokenizedLength> length = text_ids_.Append(
      prompted, limit == std::numeric_limits<size_t>::max() ? 0 : limit, tokens.ids);
  if (!length.ok()) return std::move(length.error());
  tokens.truncated = length.value().truncated;
  for (const uint32_t id : tokens.ids) {
    tokens.texts.emplace_back(loaded_.tokenizer->Token(id).value_or(""));
  }
  return tokens;
}

Result<std::vector<QueryStages>> Engine::Impl::Attribute(std::string_view text, size_t calls,
                                                         const EmbedOptions& options) {
  Result<std::string_view> prompt = Prompt(options);
  if (!prompt.ok()) return std::move(prompt.error());
  Result<size_t> columns = Columns(options);
  if (!columns.ok()) return std::move(columns.error());
  return TakeApart(loaded_, text_ids_, device_mutex_,
                   {.text = text,
                    .form = {.prompt = prompt.value(), .truncate = options.truncate},
                    .output = Form(options),
                    .columns = columns.value()},
                   calls);
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
  Result<bool> is_static = IsStatic(directory);
  if (!is_static.ok()) return std::move(is_static.error());
  Result<LoadedModel> loaded =
      is_static.value() ? LoadStatic(directory, options) : LoadEncoder(directory, options);
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

Result<std::vector<float>> Engine::EmbedEachToken(std::span<const uint32_t> ids,
                                                  std::span<const size_t> offsets) const {
  return impl_->EmbedEachToken(ids, offsets);
}

Result<std::string> Engine::Decode(std::span<const uint32_t> ids, bool skip_special_tokens) const {
  return impl_->tokenizer().Decode(ids, skip_special_tokens);
}

Result<std::vector<QueryStages>> Engine::Attribute(std::string_view text, size_t calls,
                                                   const EmbedOptions& options) const {
  return impl_->Attribute(text, calls, options);
}

Result<std::string> Engine::Fingerprint() const { return impl_->Fingerprint(); }

Ticket Engine::Submit(std::span<const std::string_view> texts, const EmbedOptions& options,
                      EmbedCallback callback) const {
  return Ticket(impl_->submissions().Submit([&] { return impl_->MakeJob(texts, options); },
                                            std::move(callback)));
}

Ticket Engine::Submit(std::string_view text, const EmbedOptions& options,
                      EmbedCallback callback) const {
  return Submit(std::span(&text, 1), options, std::move(callback));
}

Ticket Engine::SubmitTokens(std::span<const uint32_t> ids, std::span<const size_t> offsets,
                            const EmbedOptions& options, EmbedCallback callback) const {
  return Ticket(impl_->submissions().Submit([&] { return impl_->MakeJob(ids, offsets, options); },
                                            std::move(callback)));
}

void Engine::Cancel(const Ticket& ticket) const {
  if (ticket.request_ == nullptr) return;
  impl_->submissions().Cancel(std::static_pointer_cast<Job>(ticket.request_));
}

QueueDepth Engine::queued() const { return impl_->submissions().queued(); }

const EngineInfo& Engine::info() const { return impl_->info(); }

}  // namespace sprat
