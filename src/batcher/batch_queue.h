// The state of the micro-batcher: who waits, who runs, who was answered. No threads, no clock.
#ifndef SPRAT_BATCHER_BATCH_QUEUE_H_
#define SPRAT_BATCHER_BATCH_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batcher/policy.h"
#include "sprat/result.h"

namespace sprat {

class BatchQueue;

// A request: one text or several, each known by its number of tokens only. What the texts are and
// where their vectors go is in the class that derives from this one; the batcher never looks.
//
// Jobs are held by shared_ptr: the caller keeps one to cancel with, and the batcher keeps one until
// the batch that reads the job has ended, which for a cancelled job is after its answer.
class Job {
 public:
  // tokens: one entry a text. A job that is added has at least one.
  explicit Job(std::vector<uint32_t> tokens);
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::span<const uint32_t> tokens() const { return tokens_; }
  size_t texts() const { return tokens_.size(); }
  size_t total_tokens() const { return total_tokens_; }

  // From acceptance to the start of the first batch, and the time in batches. Read them in the
  // answer or after it.
  Clock::duration queue_time() const { return queue_time_; }
  Clock::duration run_time() const { return run_time_; }

 private:
  friend class BatchQueue;
  friend class MicroBatcher;
  enum class State {
    kNew,
    kCancelledEarly,  // before it was submitted: remembered until it is
    kWaiting,
    kRunning,
    kAnswered
  };

  const std::vector<uint32_t> tokens_;
  size_t total_tokens_ = 0;
  const BatchQueue* queue_ = nullptr;  // that it was added to; set once, before anyone can cancel
  // All that follows is guarded by the mutex of the batcher that has the job.
  State state_ = State::kNew;
  size_t started_ = 0;         // texts that are in a batch or were in one
  size_t started_tokens_ = 0;  // their tokens
  Clock::time_point accepted_;
  Clock::duration queue_time_{0};
  Clock::duration run_time_{0};
  std::function<void(Result<void>)> done_;
};

// Texts first .. first + count - 1 of a job.
struct Slice {
  std::shared_ptr<Job> job;
  size_t first = 0;
  size_t count = 0;
};

// Says that `job` must now be answered with `result`.
struct Answer {
  std::shared_ptr<Job> job;
  Result<void> result;
};

// Single requests wait in order of arrival and start together; arrays take turns, a chunk each.
// When an array is about to run a chunk, the single requests that wait at that moment run first
// (singles_ahead_), so that neither kind can starve the other.
//
// Every job given to Add is answered exactly once: by an error from Add, by Cancel returning true,
// or by an Answer from Finish. Not thread-safe: the owner's mutex guards it and its jobs.
class BatchQueue {
 public:
  explicit BatchQueue(const BatchLimits& limits) : limits_(limits) {}

  // Accepts a job. Errors: kOverloaded if the queue is full or draining, kCancelled if the job was
  // cancelled before. A job may be added once.
  Result<void> Add(std::shared_ptr<Job> job, Clock::time_point now);

  // Withdraws a job. True if it waits or runs: then answer it kCancelled; its texts leave the
  // queue, and a batch that has already started goes on for the others. False if it was not added
  // yet, which is remembered, or was already answered, or is another queue's: nothing changes.
  bool Cancel(const std::shared_ptr<Job>& job);

  // From here on nothing is accepted, and what waits is due at once.
  void Drain() { draining_ = true; }

  // When the device should be used next; nullopt if nothing waits. Not later than `now` means now.
  std::optional<Clock::time_point> NextDue(Clock::time_point now) const;

  // Starts the batch that is due: what it consists of, or nothing. Requires that no batch runs.
  // The slices stay valid until Finish.
  std::span<const Slice> Take(Clock::time_point now);

  // Ends the batch that runs. rows: how many vectors it made, or why it failed. The answers due are
  // appended to `answers`: an error, or a kInternal for a wrong number of rows, reaches every job
  // of the batch and no other.
  void Finish(const Result<size_t>& rows, Clock::time_point now, std::vector<Answer>& answers);

  // What has not started: single requests and what remains of arrays.
  Waiting queued() const;
  bool running() const { return !batch_.empty(); }
  bool draining() const { return draining_; }

 private:
  bool SinglesDue(Clock::time_point now) const;
  void TakeSingles();
  void TakeChunk();
  void RemoveWaiting(const std::shared_ptr<Job>& job);
  void Requeue(const std::shared_ptr<Job>& array);

  const BatchLimits limits_;
  std::deque<std::shared_ptr<Job>> singles_;
  std::deque<std::shared_ptr<Job>> arrays_;
  Waiting waiting_singles_;  // `oldest`: when the window opened
  Waiting waiting_arrays_;   // an array waits as long as it has a text that has not started
  size_t singles_ahead_ = 0;
  bool holding_ = false;  // the array in front runs on, without single requests in between
  bool draining_ = false;
  std::vector<Slice> batch_;  // what runs
  Clock::time_point started_;
};

}  // namespace sprat

#endif  // SPRAT_BATCHER_BATCH_QUEUE_H_
