#include "batcher/batch_queue.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"

namespace sprat {

Job::Job(std::vector<uint32_t> tokens)
    : tokens_(std::move(tokens)),
      total_tokens_(std::accumulate(tokens_.begin(), tokens_.end(), size_t{0})) {}

Result<void> BatchQueue::Add(std::shared_ptr<Job> job, Clock::time_point now) {
  CHECK(job->texts() > 0);
  CHECK(job->state_ == Job::State::kNew || job->state_ == Job::State::kCancelledEarly);
  if (job->state_ == Job::State::kCancelledEarly) {
    job->state_ = Job::State::kAnswered;
    return Error(ErrorCode::kCancelled, "the request was cancelled before it was queued");
  }
  job->queue_ = this;
  job->state_ = Job::State::kAnswered;
  if (draining_) return Error(ErrorCode::kOverloaded, "shutting down: no new requests");
  if (Result<void> admitted = Admit(limits_, queued(), job->total_tokens()); !admitted.ok()) {
    return admitted;
  }
  job->state_ = Job::State::kWaiting;
  job->accepted_ = now;
  const bool single = job->texts() == 1;
  Waiting& waiting = single ? waiting_singles_ : waiting_arrays_;
  if (waiting.requests == 0) waiting.oldest = now;
  ++waiting.requests;
  waiting.tokens += job->total_tokens();
  if (!single && arrays_.empty()) singles_ahead_ = singles_.size();
  (single ? singles_ : arrays_).push_back(std::move(job));
  return {};
}

bool BatchQueue::Cancel(const std::shared_ptr<Job>& job) {
  if (job->queue_ != nullptr && job->queue_ != this) return false;
  switch (job->state_) {
    case Job::State::kNew:
      job->state_ = Job::State::kCancelledEarly;
      return false;
    case Job::State::kCancelledEarly:
    case Job::State::kAnswered:
      return false;
    case Job::State::kWaiting:
      RemoveWaiting(job);
      break;
    case Job::State::kRunning:
      if (job->started_ < job->texts()) {  // an array: its later chunks will not run
        --waiting_arrays_.requests;
        waiting_arrays_.tokens -= job->total_tokens() - job->started_tokens_;
      }
      break;
  }
  job->state_ = Job::State::kAnswered;
  return true;
}

void BatchQueue::RemoveWaiting(const std::shared_ptr<Job>& job) {
  const bool single = job->texts() == 1;
  std::deque<std::shared_ptr<Job>>& queue = single ? singles_ : arrays_;
  const auto at = std::find(queue.begin(), queue.end(), job);
  CHECK(at != queue.end());
  if (single && static_cast<size_t>(at - singles_.begin()) < singles_ahead_) --singles_ahead_;
  if (!single && at == arrays_.begin()) holding_ = false;
  queue.erase(at);
  Waiting& waiting = single ? waiting_singles_ : waiting_arrays_;
  --waiting.requests;
  waiting.tokens -= job->total_tokens() - job->started_tokens_;
}

bool BatchQueue::SinglesDue(Clock::time_point now) const {
  const std::optional<Clock::time_point> due = DueAt(limits_, waiting_singles_);
  return due.has_value() && (draining_ || *due <= now);
}

std::optional<Clock::time_point> BatchQueue::NextDue(Clock::time_point now) const {
  if (!arrays_.empty() || SinglesDue(now)) return now;
  return DueAt(limits_, waiting_singles_);
}

std::span<const Slice> BatchQueue::Take(Clock::time_point now) {
  CHECK(!running());
  const bool singles_first = !holding_ && (arrays_.empty() || singles_ahead_ > 0);
  if (singles_first && SinglesDue(now)) {
    TakeSingles();
  } else if (!arrays_.empty()) {
    TakeChunk();
  }
  started_ = now;
  for (const Slice& slice : batch_) {
    slice.job->state_ = Job::State::kRunning;
    if (slice.first == 0) slice.job->queue_time_ = now - slice.job->accepted_;
  }
  return batch_;
}

void BatchQueue::TakeSingles() {
  Room room(limits_.max_batch, limits_.max_tokens);
  while (!singles_.empty() && room.Add(singles_.front()->total_tokens())) {
    std::shared_ptr<Job> job = std::move(singles_.front());
    singles_.pop_front();
    --waiting_singles_.requests;
    waiting_singles_.tokens -= job->total_tokens();
    job->started_ = 1;
    job->started_tokens_ = job->total_tokens();
    if (singles_ahead_ > 0) --singles_ahead_;
    batch_.push_back({.job = std::move(job), .first = 0, .count = 1});
  }
  // Who is left opened a window of his own when he came.
  if (!singles_.empty()) waiting_singles_.oldest = singles_.front()->accepted_;
}

void BatchQueue::TakeChunk() {
  const std::shared_ptr<Job> array = std::move(arrays_.front());
  arrays_.pop_front();
  const size_t first = array->started_;
  Room room(array->texts(), limits_.max_tokens);
  while (array->started_ < array->texts() && room.Add(array->tokens()[array->started_])) {
    waiting_arrays_.tokens -= array->tokens()[array->started_];
    array->started_tokens_ += array->tokens()[array->started_];
    ++array->started_;
  }
  if (array->started_ == array->texts()) --waiting_arrays_.requests;
  batch_.push_back({.job = array, .first = first, .count = array->started_ - first});
}

// Puts an array that has more chunks back: behind the other arrays, or in front of everybody.
void BatchQueue::Requeue(const std::shared_ptr<Job>& array) {
  array->state_ = Job::State::kWaiting;
  holding_ = limits_.ArrayHold();
  if (holding_) {
    arrays_.push_front(array);
  } else {
    arrays_.push_back(array);
  }
}

void BatchQueue::Finish(const Result<size_t>& rows, Clock::time_point now,
                        std::vector<Answer>& answers) {
  CHECK(running());
  size_t texts = 0;
  for (const Slice& slice : batch_) texts += slice.count;
  Result<void> result;
  if (!rows.ok()) {
    result = rows.error();
  } else if (rows.value() != texts) {
    result = Error(ErrorCode::kInternal, "the model returned " + std::to_string(rows.value()) +
                                             " vectors for " + std::to_string(texts) + " texts");
  }
  const bool array = batch_.front().job->texts() > 1;
  holding_ = false;
  for (const Slice& slice : batch_) {
    const std::shared_ptr<Job>& job = slice.job;
    if (job->state_ == Job::State::kAnswered) continue;  // cancelled meanwhile
    job->run_time_ += now - started_;
    const bool more = job->started_ < job->texts();
    if (result.ok() && more) {
      Requeue(job);
      continue;
    }
    if (more) {  // failed: the chunks that are left will not run
      --waiting_arrays_.requests;
      waiting_arrays_.tokens -= job->total_tokens() - job->started_tokens_;
    }
    job->state_ = Job::State::kAnswered;
    answers.push_back({.job = job, .result = result});
  }
  batch_.clear();
  if (array) singles_ahead_ = singles_.size();
}

Waiting BatchQueue::queued() const {
  return {.requests = waiting_singles_.requests + waiting_arrays_.requests,
          .tokens = waiting_singles_.tokens + waiting_arrays_.tokens,
          .oldest = waiting_singles_.oldest};
}

}  // namespace sprat
