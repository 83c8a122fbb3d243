// The micro-batcher: joins requests of many threads, so that one batch takes the device once.
#ifndef SPRAT_BATCHER_MICRO_BATCHER_H_
#define SPRAT_BATCHER_MICRO_BATCHER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "batcher/batch_queue.h"
#include "batcher/policy.h"
#include "sprat/result.h"

namespace sprat {

// Time as the batcher sees it, so that a test can be the clock.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual Clock::time_point Now() const = 0;
  // Like condition.wait_until(lock, due): returns when notified, at `due`, or earlier.
  virtual void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                         Clock::time_point due) = 0;
};

// The machine's monotonic clock.
TimeSource& SteadyTime();

// Owns a worker thread and the right to use the device, which one thread has at a time: the worker,
// or a caller who found the device free and runs the batch himself.
//
// Threads: all methods may be called from any thread.
class MicroBatcher {
 public:
  // Runs one batch: computes the vectors of the slices and stores them where their jobs say.
  // Returns how many vectors it made. Called by one thread at a time; must not throw, nor call the
  // batcher. A slice's job may have been cancelled and answered: it is still safe to write to it.
  using RunBatch = std::function<Result<size_t>(std::span<const Slice>)>;
  // Receives a job's answer, once. Called on whichever thread has it, also from inside Submit and
  // Cancel; the device waits until it returns, so it should only pass the answer on. It may call
  // Submit and Cancel, but not Run.
  using Done = std::function<void(Result<void>)>;

  // Starts the worker. Errors: kInvalidArgument naming a limit, kOutOfMemory if there is no thread.
  // time: outlives the batcher.
  static Result<std::unique_ptr<MicroBatcher>> Start(const BatchLimits& limits, RunBatch run,
                                                     TimeSource& time = SteadyTime());

  // Shutdown.
  ~MicroBatcher();
  MicroBatcher(const MicroBatcher&) = delete;
  MicroBatcher& operator=(const MicroBatcher&) = delete;

  // Takes a job and returns; `done` is called once, with kOverloaded or kCancelled at once (see
  // BatchQueue::Add), with the batch's outcome when there is one, or with kCancelled by Cancel.
  void Submit(std::shared_ptr<Job> job, Done done);

  // Submits a job and waits for its answer. Without a window, and with the device free, the calling
  // thread runs the batch itself, which costs a lone caller nothing but two locks.
  Result<void> Run(std::shared_ptr<Job> job);

  // See BatchQueue::Cancel. If there is somebody to answer, that happens before this returns.
  void Cancel(const std::shared_ptr<Job>& job);

  // Accepts nothing more, and returns when everything accepted is answered and the worker has
  // ended. Windows do not delay it. Not to be called from `done`.
  void Shutdown();

  // What has not started yet.
  Waiting queued() const;

  // kOverloaded if the queue would refuse any request now: a look before the work of making one.
  Result<void> HasRoom() const;

 private:
  MicroBatcher(const BatchLimits& limits, RunBatch run, TimeSource& time);
  void Work();
  void Wait(std::unique_lock<std::mutex>& lock, std::optional<Clock::time_point> due);
  void WakeWorker();
  bool CallerRuns() const;
  void Lead(std::unique_lock<std::mutex>& lock, const Job* until);
  void RunOne(std::unique_lock<std::mutex>& lock, std::span<const Slice> batch);
  static void Deliver(std::vector<Answer>& answers);

  const BatchLimits limits_;
  const RunBatch run_;
  TimeSource& time_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // the worker waits on it
  std::condition_variable idle_;  // Shutdown waits on it
  uint32_t signals_ = 0;          // guarded by mutex_: what could give the worker something to do
  BatchQueue queue_;              // guarded by mutex_
  bool busy_ = false;             // guarded by mutex_: a thread has the device
  bool stopped_ = false;          // guarded by mutex_: the worker has been told to end
  std::thread::id leader_;        // guarded by mutex_: who has the device, if busy_
  std::vector<Answer> answers_;   // of the thread that has the device
  std::once_flag joined_;
  std::thread worker_;
};

}  // namespace sprat

#endif  // SPRAT_BATCHER_MICRO_BATCHER_H_
