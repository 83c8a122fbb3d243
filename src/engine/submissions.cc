#include "engine/submissions.h"

#include <algorithm>
#include <utility>

#include "engine/vector_check.h"

namespace sprat {
namespace {

EmbedJob& JobOf(const Slice& slice) { return static_cast<EmbedJob&>(*slice.job); }

bool Alike(const EmbedJob& job, size_t columns, bool normalize) {
  return job.out.dimensions == columns && job.normalize == normalize;
}

}  // namespace

BatchLimits ToLimits(const BatchOptions& options, size_t inline_tokens) {
  return {.window = options.window,
          .max_batch = options.max_batch,
          .max_tokens = options.max_tokens,
          .max_queue_requests = options.max_queue_requests,
          .max_queue_tokens = options.max_queue_tokens,
          .array_hold = options.array_hold,
          .inline_tokens = inline_tokens};
}

MicroBatcher* Submissions::Batcher() {
  const std::lock_guard<std::mutex> lock(start_mutex_);
  if (batcher_ == nullptr) {
    Result<std::unique_ptr<MicroBatcher>> started =
        MicroBatcher::Start(ToLimits(options_, rule_.inline_tokens),
                            [this](std::span<const Slice> batch) { return Run(batch); });
    if (started.ok()) batcher_ = std::move(started).value();
  }
  return batcher_.get();
}

Result<void> Submissions::HasRoom() {
  MicroBatcher* const batcher = Batcher();
  return batcher == nullptr ? Result<void>() : batcher->HasRoom();
}

std::shared_ptr<Job> Submissions::Accept(Result<std::shared_ptr<EmbedJob>> made,
                                         EmbedCallback callback) {
  MicroBatcher* const batcher = Batcher();
  if (made.ok() && batcher == nullptr) {
    made = Error(ErrorCode::kOutOfMemory, "no thread could be started for the batcher");
  }
  if (!made.ok()) {
    callback(std::move(made.error()), {});
    return nullptr;
  }
  const std::shared_ptr<EmbedJob> job = std::move(made).value();
  if (job->out.rows() == 0) {  // no texts, no vectors
    callback(std::move(job->out), {});
    return nullptr;
  }
  EmbedJob* const request = job.get();  // alive until the batcher has answered
  batcher->Submit(job, [request, callback = std::move(callback)](Result<void> result) {
    const SubmitTimes times{.tokenization = request->tokenization,
                            .queue = request->queue_time(),
                            .inference = request->run_time()};
    if (result.ok()) result = CheckVectors(request->out, 0, request->out.rows());
    if (result.ok()) {
      callback(std::move(request->out), times);
    } else {
      callback(std::move(result.error()), times);
    }
  });
  return job;
}

void Submissions::Cancel(const std::shared_ptr<Job>& job) {
  if (MicroBatcher* const batcher = Batcher()) batcher->Cancel(job);
}

QueueDepth Submissions::queued() const {
  const std::lock_guard<std::mutex> lock(start_mutex_);
  if (batcher_ == nullptr) return {};
  const Waiting waiting = batcher_->queued();
  return {.requests = waiting.requests, .tokens = waiting.tokens};
}

// Requests of a batch that want the same columns and form run in one call of the model; nearly
// always that is all of them.
Result<size_t> Submissions::Run(std::span<const Slice> batch) {
  const std::lock_guard<std::mutex> device(device_);
  const Clock::time_point begin = Clock::now();
  BatchReport report;
  for (size_t i = 0; i < batch.size(); ++i) {
    const EmbedJob& job = JobOf(batch[i]);
    report.texts += batch[i].count;
    for (size_t k = 0; k < batch[i].count; ++k) report.tokens += job.tokens()[batch[i].first + k];
    const size_t columns = job.out.dimensions;
    const bool normalize = job.normalize;
    const bool done = std::any_of(
        batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Slice& earlier) { return Alike(JobOf(earlier), columns, normalize); });
    if (done) continue;
    if (Result<void> run = RunAlike(batch.subspan(i), columns, normalize); !run.ok()) {
      return std::move(run.error());
    }
  }
  report.duration = Clock::now() - begin;
  if (options_.on_batch) options_.on_batch(report);
  return report.texts;
}

// Runs the texts of the jobs in `batch` that want this form.
Result<void> Submissions::RunAlike(std::span<const Slice> batch, size_t columns, bool normalize) {
  alike_.clear();
  for (const Slice& slice : batch) {
    EmbedJob& job = JobOf(slice);
    if (!Alike(job, columns, normalize)) continue;
    for (size_t i = slice.first; i < slice.first + slice.count; ++i) {
      alike_.Add({job.ids.data() + job.next_id, job.tokens()[i]},
                 job.out.values.data() + i * columns);
      job.next_id += job.tokens()[i];
    }
  }
  return alike_.Run(
      model_,
      {.form = {.normalize = normalize}, .columns = columns, .max_tokens = rule_.call_tokens});
}

}  // namespace sprat
