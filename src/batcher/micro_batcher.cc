#include "batcher/micro_batcher.h"

#include <atomic>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/spin_wait.h"

namespace sprat {
namespace {

// How long a caller waits awake for his answer. The worker does not wait awake for work: its core
// is the one that the thread which passes the answers on, or the client, wants next.
constexpr std::chrono::microseconds kSpin{30};

class SteadyTimeSource final : public TimeSource {
 public:
  Clock::time_point Now() const override { return Clock::now(); }
  void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                 Clock::time_point due) override {
    condition.wait_until(lock, due);
  }
};

}  // namespace

TimeSource& SteadyTime() {
  static SteadyTimeSource time;
  return time;
}

Result<std::unique_ptr<MicroBatcher>> MicroBatcher::Start(const BatchLimits& limits, RunBatch run,
                                                          TimeSource& time) {
  if (Result<void> ok = CheckLimits(limits); !ok.ok()) return std::move(ok.error()).In("batching");
  std::unique_ptr<MicroBatcher> batcher(new MicroBatcher(limits, std::move(run), time));
  try {
    batcher->worker_ = std::thread(&MicroBatcher::Work, batcher.get());
  } catch (const std::system_error& e) {
    return Error(ErrorCode::kOutOfMemory,
                 std::string("starting the batcher's thread: ") + e.what());
  }
  return batcher;
}

MicroBatcher::MicroBatcher(const BatchLimits& limits, RunBatch run, TimeSource& time)
    : limits_(limits), run_(std::move(run)), time_(time), queue_(limits) {}

MicroBatcher::~MicroBatcher() { Shutdown(); }

void MicroBatcher::Submit(std::shared_ptr<Job> job, Done done) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (Result<void> added = queue_.Add(job, time_.Now()); !added.ok()) {
    lock.unlock();
    done(std::move(added));
    return;
  }
  const bool runs_here = CallerRuns() && job->total_tokens() <= limits_.inline_tokens;
  job->done_ = std::move(done);
  if (runs_here) {
    Lead(lock, job.get());
  } else if (!busy_) {
    WakeWorker();
  }
}

Result<void> MicroBatcher::Run(std::shared_ptr<Job> job) {
  struct Outcome {
    std::atomic<uint32_t> ready{0};
    Result<void> result;
  };
  // Shared with `done`, which may still be waking this thread when it is already on its way.
  const auto outcome = std::make_shared<Outcome>();
  std::unique_lock<std::mutex> lock(mutex_);
  CHECK(!busy_ || leader_ != std::this_thread::get_id());
  if (Result<void> added = queue_.Add(job, time_.Now()); !added.ok()) return added;
  job->done_ = [outcome](Result<void> result) {
    outcome->result = std::move(result);
    outcome->ready.store(1, std::memory_order_release);
    outcome->ready.notify_one();
  };
  if (CallerRuns()) {
    Lead(lock, job.get());
  } else if (!busy_) {
    WakeWorker();
  }
  lock.unlock();
  // On one core spinning only delays the thread that is waited for. This measures a cost of the
  // machine, not a decision of the batcher, and so reads the real clock.
  static const bool several_cores = std::thread::hardware_concurrency() > 1;
  if (several_cores) SpinWhile(outcome->ready, 0, kSpin, Spin::kLend);
  outcome->ready.wait(0, std::memory_order_acquire);
  return std::move(outcome->result);
}

void MicroBatcher::Cancel(const std::shared_ptr<Job>& job) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!queue_.Cancel(job)) return;
  const Done done = std::move(job->done_);
  lock.unlock();
  done(Error(ErrorCode::kCancelled, "the request was cancelled"));
}

void MicroBatcher::Shutdown() {
  std::call_once(joined_, [this] {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      CHECK(!busy_ || leader_ != std::this_thread::get_id());
      queue_.Drain();
      stopped_ = true;
      WakeWorker();
    }
    if (worker_.joinable()) worker_.join();
    // A caller who runs his own batch may still have the device.
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return !busy_; });
  });
}

Waiting MicroBatcher::queued() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.queued();
}

Result<void> MicroBatcher::HasRoom() const { return Admit(limits_, queued(), 1); }

// Whether the job that was just added, and no other, waits for a device that is free.
bool MicroBatcher::CallerRuns() const {
  return !busy_ && queue_.queued().requests == 1 && limits_.window == Clock::duration::zero();
}

void MicroBatcher::WakeWorker() {
  ++signals_;
  wake_.notify_one();
}

void MicroBatcher::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (!busy_) Lead(lock, nullptr);
    const Clock::time_point now = time_.Now();
    const std::optional<Clock::time_point> due = queue_.NextDue(now);
    if (stopped_ && !busy_ && !due.has_value()) return;
    // While another thread has the device, he will say when he is done.
    Wait(lock, busy_ ? std::nullopt : due);
  }
}

// Waits for a signal or until `due`; may return early.
void MicroBatcher::Wait(std::unique_lock<std::mutex>& lock, std::optional<Clock::time_point> due) {
  if (due.has_value()) {
    time_.WaitUntil(wake_, lock, *due);
    return;
  }
  const uint32_t seen = signals_;
  while (signals_ == seen) wake_.wait(lock);
}

// Takes the device and runs what is due: all of it, or until the job `until` is answered.
void MicroBatcher::Lead(std::unique_lock<std::mutex>& lock, const Job* until) {
  busy_ = true;
  leader_ = std::this_thread::get_id();
  while (until == nullptr || until->state_ != Job::State::kAnswered) {
    const std::span<const Slice> batch = queue_.Take(time_.Now());
    if (batch.empty()) break;
    RunOne(lock, batch);
  }
  busy_ = false;
  if (until == nullptr) return;  // the worker looks again himself
  if (stopped_) idle_.notify_all();
  if (stopped_ || queue_.queued().requests > 0) WakeWorker();
}

void MicroBatcher::RunOne(std::unique_lock<std::mutex>& lock, std::span<const Slice> batch) {
  lock.unlock();
  const Result<size_t> rows = run_(batch);
  lock.lock();
  queue_.Finish(rows, time_.Now(), answers_);
  lock.unlock();
  Deliver(answers_);
  lock.lock();
}

void MicroBatcher::Deliver(std::vector<Answer>& answers) {
  for (Answer& answer : answers) {
    const Done done = std::move(answer.job->done_);
    done(std::move(answer.result));
  }
  answers.clear();
}

}  // namespace sprat
