#include "batcher/micro_batcher.h"

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <random>
#include <string>

namespace sprat {
namespace {

using std::chrono::milliseconds;

// A clock that moves when the test says so. Nothing sleeps: a waiting worker is notified.
class ManualTime final : public TimeSource {
 public:
  Clock::time_point Now() const override { return Clock::time_point(milliseconds(now_ms_.load())); }

  void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                 Clock::time_point due) override {
    std::unique_lock<std::mutex> mine(mutex_);
    if (Now() >= due) return;
    condition_ = &condition;
    batcher_mutex_ = lock.mutex();
    ++waits_;
    waiting_.notify_all();
    mine.unlock();
    condition.wait(lock);
  }

  // Moves to `ms` and wakes the worker, which must be waiting for a window or have waited for one.
  void MoveTo(int ms) {
    std::unique_lock<std::mutex> mine(mutex_);
    waiting_.wait(mine, [this] { return waits_ > 0; });
    now_ms_ = ms;
    std::condition_variable* const condition = condition_;
    std::mutex* const batcher_mutex = batcher_mutex_;
    mine.unlock();
    const std::lock_guard<std::mutex> lock(*batcher_mutex);
    condition->notify_all();
  }

 private:
  std::atomic<int> now_ms_{0};
  std::mutex mutex_;
  std::condition_variable waiting_;  // guarded by mutex_, as all below
  std::condition_variable* condition_ = nullptr;
  std::mutex* batcher_mutex_ = nullptr;
  int waits_ = 0;
};

// A device that the test holds: each batch waits until the test lets it go on.
class Gate {
 public:
  Result<size_t> Run(std::span<const Slice> batch) {
    size_t texts = 0;
    for (const Slice& slice : batch) texts += slice.count;
    std::unique_lock<std::mutex> lock(mutex_);
    sizes_.push_back(texts);
    ++entered_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return permits_ > 0; });
    --permits_;
    return failure_.has_value() ? Result<size_t>(*failure_) : Result<size_t>(texts);
  }
  void AwaitBatches(int n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return entered_ >= n; });
  }
  void Release(int batches) {
    const std::lock_guard<std::mutex> lock(mutex_);
    permits_ += batches;
    changed_.notify_all();
  }
  void Fail(Error error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::move(error);
  }
  std::vector<size_t> sizes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sizes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;  // guarded by mutex_, as all below
  std::vector<size_t> sizes_;
  int entered_ = 0;
  int permits_ = 0;
  std::optional<Error> failure_;
};

std::shared_ptr<Job> MakeJob(std::vector<uint32_t> tokens = {1}) {
  return std::make_shared<Job>(std::move(tokens));
}

Result<size_t> Succeed(std::span<const Slice> batch) {
  size_t texts = 0;
  for (const Slice& slice : batch) texts += slice.count;
  return texts;
}

std::unique_ptr<MicroBatcher> Start(const BatchLimits& limits, MicroBatcher::RunBatch run,
                                    TimeSource& time = SteadyTime()) {
  return MicroBatcher::Start(limits, std::move(run), time).value();
}

std::unique_ptr<MicroBatcher> Start(const BatchLimits& limits, Gate& gate,
                                    TimeSource& time = SteadyTime()) {
  return Start(
      limits, [&gate](std::span<const Slice> batch) { return gate.Run(batch); }, time);
}

// Submits a job and returns its answer to come.
std::future<Result<void>> Submit(MicroBatcher& batcher, const std::shared_ptr<Job>& job) {
  const auto promise = std::make_shared<std::promise<Result<void>>>();
  batcher.Submit(job, [promise](Result<void> result) { promise->set_value(std::move(result)); });
  return promise->get_future();
}

TEST(MicroBatcher, RefusesLimitsThatMakeNoSense) {
  const auto batcher = MicroBatcher::Start({.max_batch = 0}, Succeed);
  ASSERT_FALSE(batcher.ok());
  EXPECT_EQ(batcher.error().message(), "batching: max_batch must be at least 1, got 0");
}

TEST(MicroBatcher, ALoneCallerRunsItsOwnBatch) {
  std::thread::id ran_on;
  const auto batcher = Start({}, [&](std::span<const Slice> batch) {
    ran_on = std::this_thread::get_id();
    return Succeed(batch);
  });
  EXPECT_TRUE(batcher->Run(MakeJob()).ok());
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(MicroBatcher, SubmitRunsOnTheWorkerUnlessTheJobIsSmall) {
  for (const uint32_t tokens : {5, 6}) {
    std::thread::id ran_on;
    const auto batcher = Start({.inline_tokens = 5}, [&](std::span<const Slice> batch) {
      ran_on = std::this_thread::get_id();
      return Succeed(batch);
    });
    EXPECT_TRUE(Submit(*batcher, MakeJob({tokens})).get().ok());
    EXPECT_EQ(ran_on == std::this_thread::get_id(), tokens == 5);
  }
}

TEST(MicroBatcher, RequestsThatArriveMeanwhileShareTheNextBatch) {
  Gate gate;
  const auto batcher = Start({}, gate);
  std::vector<std::future<Result<void>>> answers;
  answers.push_back(Submit(*batcher, MakeJob()));
  gate.AwaitBatches(1);
  for (int i = 0; i < 3; ++i) answers.push_back(Submit(*batcher, MakeJob()));
  gate.Release(2);
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(gate.sizes(), (std::vector<size_t>{1, 3}));
}

TEST(MicroBatcher, ACallerWhoRanHisOwnBatchHandsTheNextToTheWorker) {
  Gate gate;
  const auto batcher = Start({}, gate);
  std::thread caller([&] { EXPECT_TRUE(batcher->Run(MakeJob()).ok()); });
  gate.AwaitBatches(1);
  std::future<Result<void>> next = Submit(*batcher, MakeJob());
  gate.Release(1);
  caller.join();
  gate.AwaitBatches(2);  // hangs if nobody wakes the worker
  gate.Release(1);
  EXPECT_TRUE(next.get().ok());
}

TEST(MicroBatcher, AWindowEndsWhenTheClockSaysSo) {
  ManualTime time;
  Gate gate;
  gate.Release(10);
  const auto batcher = Start({.window = milliseconds(25), .max_batch = 16}, gate, time);
  std::future<Result<void>> a = Submit(*batcher, MakeJob());
  time.MoveTo(24);
  std::future<Result<void>> b = Submit(*batcher, MakeJob());
  time.MoveTo(25);
  EXPECT_TRUE(a.get().ok());
  EXPECT_TRUE(b.get().ok());
  EXPECT_EQ(gate.sizes(), std::vector<size_t>{2});  // at 24 ms a had not run
}

TEST(MicroBatcher, AFullBatchDoesNotWaitForTheClock) {
  ManualTime time;
  Gate gate;
  gate.Release(10);
  const auto batcher = Start({.window = milliseconds(25), .max_batch = 2}, gate, time);
  std::future<Result<void>> a = Submit(*batcher, MakeJob());
  std::future<Result<void>> b = Submit(*batcher, MakeJob());
  EXPECT_TRUE(a.get().ok());
  EXPECT_TRUE(b.get().ok());
  EXPECT_EQ(gate.sizes(), std::vector<size_t>{2});
}

TEST(MicroBatcher, ACancelledCallerIsAnsweredWhileTheBatchRuns) {
  Gate gate;
  const auto batcher = Start({}, gate);
  std::future<Result<void>> first = Submit(*batcher, MakeJob());
  gate.AwaitBatches(1);
  const std::shared_ptr<Job> cancelled = MakeJob();
  std::future<Result<void>> second = Submit(*batcher, cancelled);
  std::future<Result<void>> third = Submit(*batcher, MakeJob());
  gate.Release(1);
  gate.AwaitBatches(2);
  batcher->Cancel(cancelled);
  const Result<void> answer = second.get();  // while the gate still holds the batch
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::kCancelled);
  gate.Release(1);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(third.get().ok());
}

TEST(MicroBatcher, ACancelBeforeSubmitIsRemembered) {
  const auto batcher = Start({}, Succeed);
  const std::shared_ptr<Job> job = MakeJob();
  batcher->Cancel(job);
  const Result<void> answer = Submit(*batcher, job).get();
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code(), ErrorCode::kCancelled);
  batcher->Cancel(job);  // and again, after the answer: ignored
}

TEST(MicroBatcher, ErrorsReachTheirBatchOnly) {
  Gate gate;
  const auto batcher = Start({}, gate);
  std::future<Result<void>> a = Submit(*batcher, MakeJob());
  gate.AwaitBatches(1);
  std::future<Result<void>> b = Submit(*batcher, MakeJob());
  std::future<Result<void>> c = Submit(*batcher, MakeJob());
  gate.Release(1);
  gate.AwaitBatches(2);
  gate.Fail(Error(ErrorCode::kDevice, "lost"));
  gate.Release(1);
  EXPECT_TRUE(a.get().ok());
  EXPECT_EQ(b.get().error().message(), "lost");
  EXPECT_EQ(c.get().error().message(), "lost");
}

TEST(MicroBatcher, ShutdownAnswersWhatWasAcceptedAndRefusesTheRest) {
  ManualTime time;
  Gate gate;
  const auto batcher = Start({.window = milliseconds(25), .max_batch = 2}, gate, time);
  std::vector<std::future<Result<void>>> accepted;
  for (int i = 0; i < 5; ++i) accepted.push_back(Submit(*batcher, MakeJob()));
  gate.AwaitBatches(1);
  std::thread stopper([&] { batcher->Shutdown(); });
  gate.Release(3);  // 2 + 2 + 1, and the last does not wait for its window
  for (auto& answer : accepted) EXPECT_TRUE(answer.get().ok());
  stopper.join();
  const Result<void> refused = Submit(*batcher, MakeJob()).get();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(gate.sizes(), (std::vector<size_t>{2, 2, 1}));
}

TEST(MicroBatcher, AnAnswerMaySubmitTheNextRequest) {
  const auto batcher = Start({.inline_tokens = 100}, Succeed);
  std::promise<void> finished;
  int left = 10'000;  // deep enough to overflow the stack if each ran inside the one before
  std::function<void(Result<void>)> again = [&](Result<void> result) {
    EXPECT_TRUE(result.ok());
    if (--left == 0) return finished.set_value();
    batcher->Submit(MakeJob(), again);
  };
  batcher->Submit(MakeJob(), again);
  finished.get_future().wait();
}

// Many threads submit, run and cancel singles and arrays on a device that sometimes fails; the
// batcher is shut down under them. Under tsan this is the test of the locking.
TEST(MicroBatcher, EveryRequestIsAnsweredOnceUnderFire) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::atomic<int> in_device{0};
    std::atomic<uint32_t> batches{0};
    auto batcher = Start({.max_batch = 3,
                          .max_tokens = 8,
                          .max_queue_requests = 16,
                          .inline_tokens = seed % 2 ? size_t{4} : size_t{0}},
                         [&](std::span<const Slice> batch) -> Result<size_t> {
                           EXPECT_EQ(in_device.fetch_add(1), 0) << "two threads have the device";
                           const uint32_t n = batches.fetch_add(1);
                           if (n % 16 == 0) std::this_thread::yield();  // let others queue up
                           in_device.fetch_sub(1);
                           if (n % 7 == 3) return Error(ErrorCode::kDevice, "lost");
                           return Succeed(batch);
                         });
    constexpr int kThreads = 4;
    constexpr int kRequests = 200;
    std::vector<std::atomic<int>> answers(kThreads * kRequests);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 generator(seed * 100 + static_cast<uint32_t>(t));
        const auto random = [&] { return static_cast<uint32_t>(generator()); };
        for (int i = 0; i < kRequests; ++i) {
          std::atomic<int>& count = answers[static_cast<size_t>(t * kRequests + i)];
          const std::shared_ptr<Job> job =
              MakeJob(std::vector<uint32_t>(1 + random() % 4 % 3, 1 + random() % 5));
          const uint32_t choice = random() % 8;
          if (choice == 0) batcher->Cancel(job);
          if (choice < 3) {
            static_cast<void>(batcher->Run(job).ok());
            count.fetch_add(1);
          } else {
            batcher->Submit(job, [&count](Result<void>) { count.fetch_add(1); });
          }
          if (choice == 4) batcher->Cancel(job);
          if (t == 0 && i == kRequests * 3 / 4) batcher->Shutdown();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    batcher.reset();
    for (const std::atomic<int>& count : answers) ASSERT_EQ(count.load(), 1);
  }
}

}  // namespace
}  // namespace sprat
