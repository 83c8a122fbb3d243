// A model check: every interleaving of a few requests with everything that can happen to them, and
// long random ones. After each, every request that was added has exactly one answer.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "batcher/batch_queue.h"

namespace sprat {
namespace {

using std::chrono::milliseconds;

enum class Step { kAdd, kCancel, kTake, kComplete, kFail, kMiscount, kTick, kDrain };

struct Event {
  Step step;
  size_t job = 0;  // of kAdd and kCancel
};

// One world: a queue, its jobs, and how often each was answered. Checks the invariants as it goes.
class World {
 public:
  World(const BatchLimits& limits, const std::vector<std::vector<uint32_t>>& jobs)
      : limits_(limits), queue_(limits) {
    for (const std::vector<uint32_t>& tokens : jobs) jobs_.push_back(std::make_shared<Job>(tokens));
    added_.resize(jobs.size());
    answers_.resize(jobs.size());
  }

  // Whether the event can happen now: a job is added once, a batch ends if one runs.
  bool Possible(const Event& event) const {
    switch (event.step) {
      case Step::kAdd:
        return !added_[event.job];
      case Step::kCancel:
        return true;
      case Step::kTake:
        return !queue_.running();
      case Step::kComplete:
      case Step::kFail:
      case Step::kMiscount:
        return queue_.running();
      case Step::kTick:
        return true;
      case Step::kDrain:
        return !queue_.draining();
    }
    return false;
  }

  void Do(const Event& event) {
    switch (event.step) {
      case Step::kAdd:
        added_[event.job] = true;
        if (!queue_.Add(jobs_[event.job], now_).ok()) ++answers_[event.job];
        break;
      case Step::kCancel:
        if (queue_.Cancel(jobs_[event.job])) ++answers_[event.job];
        break;
      case Step::kTake:
        Take();
        break;
      case Step::kComplete:
        Finish(running_);
        break;
      case Step::kFail:
        Finish(Error(ErrorCode::kDevice, "lost"));
        break;
      case Step::kMiscount:
        Finish(running_ + 1);
        break;
      case Step::kTick:
        now_ += milliseconds(1);
        break;
      case Step::kDrain:
        queue_.Drain();
        break;
    }
    CheckQueued();
  }

  // Runs what is left to its end, as a shutdown does.
  void RunOut() {
    if (queue_.running()) Finish(running_);
    queue_.Drain();
    for (int rounds = 0; queue_.NextDue(now_).has_value(); ++rounds) {
      ASSERT_LT(rounds, 100) << "the queue does not get empty";
      Take();
      ASSERT_TRUE(queue_.running()) << "something is due, but nothing starts";
      Finish(running_);
    }
    for (size_t i = 0; i < jobs_.size(); ++i) {
      ASSERT_EQ(answers_[i], added_[i] ? 1 : 0) << "answers of job " << i;
    }
    ASSERT_EQ(queue_.queued().requests, 0u);
    ASSERT_EQ(queue_.queued().tokens, 0u);
  }

 private:
  void Take() {
    running_ = 0;
    size_t tokens = 0;
    const std::span<const Slice> batch = queue_.Take(now_);
    for (const Slice& slice : batch) {
      ASSERT_GT(slice.count, 0u);
      ASSERT_EQ(slice.first, next_text_[slice.job.get()]) << "texts out of order or twice";
      next_text_[slice.job.get()] += slice.count;
      running_ += slice.count;
      for (size_t i = 0; i < slice.count; ++i) tokens += slice.job->tokens()[slice.first + i];
      for (size_t i = 0; i < jobs_.size(); ++i) {
        ASSERT_TRUE(jobs_[i] != slice.job || answers_[i] == 0) << "an answered job runs";
      }
    }
    ASSERT_TRUE(tokens <= limits_.max_tokens || running_ == 1);
    ASSERT_TRUE(batch.size() <= limits_.max_batch);
    ASSERT_TRUE(batch.size() <= 1 || batch[0].job->texts() == 1) << "an array shares a batch";
  }

  void Finish(const Result<size_t>& rows) {
    std::vector<Answer> answers;
    queue_.Finish(rows, now_, answers);
    for (const Answer& answer : answers) {
      for (size_t i = 0; i < jobs_.size(); ++i) {
        if (jobs_[i] == answer.job) ++answers_[i];
      }
      const bool whole = next_text_[answer.job.get()] == answer.job->texts();
      ASSERT_TRUE(whole || !answer.result.ok()) << "answered before the last chunk";
    }
  }

  void CheckQueued() {
    for (const int count : answers_) ASSERT_LE(count, 1) << "a second answer";
    ASSERT_LE(queue_.queued().requests, limits_.max_queue_requests);
  }

  const BatchLimits limits_;
  BatchQueue queue_;
  Clock::time_point now_;
  std::vector<std::shared_ptr<Job>> jobs_;
  std::vector<bool> added_;
  std::vector<int> answers_;
  std::map<const Job*, size_t> next_text_;
  size_t running_ = 0;  // texts of the batch that runs
};

std::vector<Event> Alphabet(size_t jobs) {
  std::vector<Event> events;
  for (size_t job = 0; job < jobs; ++job) {
    events.push_back({Step::kAdd, job});
    events.push_back({Step::kCancel, job});
  }
  for (const Step step :
       {Step::kTake, Step::kComplete, Step::kFail, Step::kMiscount, Step::kTick, Step::kDrain}) {
    events.push_back({step});
  }
  return events;
}

std::string Describe(const std::vector<Event>& path) {
  static constexpr const char* kNames[] = {"add",  "cancel",   "take", "complete",
                                           "fail", "miscount", "tick", "drain"};
  std::string text;
  for (const Event& event : path) {
    text += kNames[static_cast<size_t>(event.step)];
    if (event.step == Step::kAdd || event.step == Step::kCancel) text += std::to_string(event.job);
    text += ' ';
  }
  return text;
}

struct Scenario {
  const char* name;
  BatchLimits limits;
  std::vector<std::vector<uint32_t>> jobs;
};

// Two singles and an array of three chunks, under limits that each make another rule bite.
const Scenario kScenarios[] = {
    {"WindowZero", {.max_batch = 2, .max_tokens = 2}, {{1}, {1}, {2, 1, 2}}},
    {"Window", {.window = milliseconds(2), .max_batch = 2, .max_tokens = 2}, {{1}, {1}, {2, 2}}},
    {"Hold", {.max_batch = 2, .max_tokens = 2, .array_hold = true}, {{1}, {2, 2}, {2, 2}}},
    {"SmallQueue",
     {.max_batch = 1, .max_tokens = 3, .max_queue_requests = 2, .max_queue_tokens = 3},
     {{1}, {3}, {2, 2}}},
};

class ModelCheck : public testing::TestWithParam<Scenario> {};

// Walks every path of `depth` events; each is replayed from the start.
void Explore(const Scenario& scenario, const std::vector<Event>& alphabet, size_t depth,
             std::vector<Event>& path, size_t& paths) {
  World world(scenario.limits, scenario.jobs);
  for (const Event& event : path) {
    world.Do(event);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << Describe(path);
  }
  if (path.size() == depth) {
    ++paths;
    world.RunOut();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << Describe(path);
    return;
  }
  for (const Event& event : alphabet) {
    if (!world.Possible(event)) continue;
    path.push_back(event);
    Explore(scenario, alphabet, depth, path, paths);
    path.pop_back();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(ModelCheck, EveryInterleavingAnswersEachRequestOnce) {
  std::vector<Event> path;
  size_t paths = 0;
  Explore(GetParam(), Alphabet(GetParam().jobs.size()), 6, path, paths);
  EXPECT_GT(paths, 100'000u);
}

TEST_P(ModelCheck, LongRandomInterleavingsDoToo) {
  const uint32_t seed = 20240607;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<Event> alphabet = Alphabet(GetParam().jobs.size());
  for (int run = 0; run < 100'000; ++run) {
    World world(GetParam().limits, GetParam().jobs);
    std::vector<Event> path;
    while (path.size() < 24) {
      const Event event = alphabet[random() % alphabet.size()];
      if (!world.Possible(event)) continue;
      path.push_back(event);
      world.Do(event);
      ASSERT_FALSE(HasFatalFailure()) << Describe(path);
    }
    world.RunOut();
    ASSERT_FALSE(HasFatalFailure()) << Describe(path);
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, ModelCheck, testing::ValuesIn(kScenarios),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace sprat
