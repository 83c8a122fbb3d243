// Engine::Submit: the batcher and the model together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model/model_writer_for_test.h"
#include "sprat/engine.h"

namespace sprat {
namespace {

using testing::HasSubstr;

Engine Open(const EngineOptions& options = {}) {
  Result<Engine> engine = Engine::Open(TinyModel().Write(), options);
  EXPECT_TRUE(engine.ok()) << engine.error().message();
  return std::move(engine).value();
}

using Future = std::future<Result<Embeddings>>;

// A callback and where its answer arrives.
std::pair<EmbedCallback, Future> Receiver() {
  const auto promise = std::make_shared<std::promise<Result<Embeddings>>>();
  Future future = promise->get_future();
  return {[promise](Result<Embeddings> result, const SubmitTimes&) {
            promise->set_value(std::move(result));
          },
          std::move(future)};
}

Future Submit(const Engine& engine, std::vector<std::string_view> texts,
              const EmbedOptions& options = {}) {
  auto [callback, future] = Receiver();
  engine.Submit(texts, options, callback);
  return std::move(future);
}

bool SameBits(const Embeddings& a, const Embeddings& b) {
  return a.tokens == b.tokens && a.truncated == b.truncated && a.dimensions == b.dimensions &&
         a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

// Holds every batch at its end until the test lets it go.
class Gate {
 public:
  EngineOptions Options(BatchOptions batch = {}) {
    batch.on_batch = [this](const BatchReport& report) {
      std::unique_lock<std::mutex> lock(mutex_);
      reports_.push_back(report);
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    };
    return {.batch = batch};
  }
  void AwaitBatches(size_t n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return reports_.size() >= n; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::vector<BatchReport> reports() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return reports_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;  // guarded by mutex_, as all below
  std::vector<BatchReport> reports_;
  bool open_ = false;
};

TEST(Submit, GivesTheBitsOfEmbed) {
  const Engine engine = Open();
  const std::vector<std::string_view> texts = {"rain", "", "rain and snow in the north", "rain"};
  for (const EmbedOptions& options :
       {EmbedOptions{}, EmbedOptions{.normalize = false}, EmbedOptions{.dimensions = 3}}) {
    const Result<Embeddings> submitted = Submit(engine, texts, options).get();
    ASSERT_TRUE(submitted.ok()) << submitted.error().message();
    EXPECT_TRUE(SameBits(submitted.value(), engine.Embed(texts, options).value()));
  }
}

TEST(Submit, TakesTokenIds) {
  const Engine engine = Open();
  const std::vector<uint32_t> ids = engine.Tokenize("rain and snow").value().ids;
  const std::vector<size_t> offsets = {0, 2, ids.size()};
  auto [callback, future] = Receiver();
  engine.SubmitTokens(ids, offsets, {}, callback);
  EXPECT_TRUE(SameBits(future.get().value(), engine.EmbedTokens(ids, offsets).value()));
}

TEST(Submit, AnArrayLongerThanABatchIsCutWithoutATrace) {
  const Engine engine = Open({.batch = {.max_tokens = 8}});
  std::vector<std::string> texts;
  for (size_t i = 0; i < 40; ++i) texts.push_back("rain " + std::to_string(i * 7 % 30));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  EXPECT_TRUE(SameBits(Submit(engine, views).get().value(), engine.Embed(views).value()));
}

TEST(Submit, RequestsOfEveryFormShareABatch) {
  Gate gate;
  const Engine engine = Open(gate.Options());
  Future first = Submit(engine, {"rain"});
  gate.AwaitBatches(1);
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) texts.push_back("snow " + std::to_string(i));
  const auto form = [](size_t i) -> EmbedOptions {
    if (i % 3 == 0) return {};
    if (i % 3 == 1) return {.normalize = false};
    return {.dimensions = 2};
  };
  std::vector<Future> rest;
  for (size_t i = 0; i < texts.size(); ++i) rest.push_back(Submit(engine, {texts[i]}, form(i)));
  EXPECT_EQ(engine.queued().requests, 12u);
  gate.Open();
  EXPECT_TRUE(first.get().ok());
  for (size_t i = 0; i < texts.size(); ++i) {
    const Result<Embeddings> row = rest[i].get();
    ASSERT_TRUE(row.ok()) << row.error().message();
    EXPECT_TRUE(SameBits(row.value(), engine.EmbedOne(texts[i], form(i)).value())) << i;
  }
  const std::vector<BatchReport> reports = gate.reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].texts, 1u);
  EXPECT_EQ(reports[1].texts, 12u);
}

TEST(Submit, ErrorsComeThroughTheCallback) {
  const Engine engine = Open();
  const auto error = [&](std::vector<std::string_view> texts, const EmbedOptions& options) {
    Result<Embeddings> result = Submit(engine, std::move(texts), options).get();
    return result.ok() ? Error(ErrorCode::kInternal, "no error") : std::move(result.error());
  };
  EXPECT_EQ(error({"a"}, {.prompt_name = "nothing"}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error({"a"}, {.dimensions = 0}).code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error({"a", "\xFF"}, {}).message(), HasSubstr("text 1"));
  std::string words;
  for (int i = 0; i < 2000; ++i) words += "rain ";
  EXPECT_EQ(error({words}, {.truncate = false}).code(), ErrorCode::kTooLong);
}

// The other requests of its batch have their vectors.
TEST(Submit, AVectorThatIsNotFiniteFailsItsOwnRequest) {
  TinyModel model;
  model.edit = [](TestTensor& tensor) {
    if (tensor.name == "embeddings.word_embeddings.weight") {
      tensor.values[7 * tensor.shape[1]] = NAN;
    }
  };
  Gate gate;
  Result<Engine> opened = Engine::Open(model.Write(), gate.Options());
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  const Engine engine = std::move(opened).value();
  const auto submit = [&](std::vector<uint32_t> ids) {
    auto [callback, future] = Receiver();
    engine.SubmitTokens(ids, std::vector<size_t>{0, ids.size()}, {}, callback);
    return std::move(future);
  };
  Future first = submit({2, 5, 3});
  gate.AwaitBatches(1);  // what follows shares the next batch
  Future good = submit({2, 6, 3}), bad = submit({2, 7, 3});
  gate.Open();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(good.get().ok());
  const Result<Embeddings> failed = bad.get();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kInternal);
  EXPECT_THAT(failed.error().message(), HasSubstr("text 0: the vector holds NaN or infinity"));
  EXPECT_EQ(gate.reports().size(), 2u);
}

TEST(Submit, NoTextsNoRows) {
  const Engine engine = Open();
  EXPECT_EQ(Submit(engine, {}).get().value().rows(), 0u);
}

TEST(Submit, ACancelledRequestLeavesTheQueue) {
  Gate gate;
  const Engine engine = Open(gate.Options());
  Future first = Submit(engine, {"rain"});
  gate.AwaitBatches(1);
  auto [callback, cancelled] = Receiver();
  const Ticket ticket = engine.Submit("snow", {}, callback);
  Future third = Submit(engine, {"hail"});
  EXPECT_EQ(engine.queued().requests, 2u);
  engine.Cancel(ticket);
  EXPECT_EQ(engine.queued().requests, 1u);
  EXPECT_EQ(cancelled.get().error().code(), ErrorCode::kCancelled);  // while the device is held
  engine.Cancel(ticket);                                             // again: ignored
  engine.Cancel(Ticket());
  gate.Open();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(third.get().ok());
}

TEST(Submit, AFullQueueIsOverloaded) {
  Gate gate;
  const Engine engine = Open(gate.Options({.max_queue_requests = 1}));
  Future first = Submit(engine, {"rain"});
  gate.AwaitBatches(1);
  Future second = Submit(engine, {"snow"});
  EXPECT_EQ(Submit(engine, {"hail"}).get().error().code(), ErrorCode::kOverloaded);
  // Nor is it looked at: one that could not be taken anyhow is told the same.
  EXPECT_EQ(Submit(engine, {"hail"}, {.dimensions = 1000}).get().error().code(),
            ErrorCode::kOverloaded);
  gate.Open();
  EXPECT_TRUE(second.get().ok());
}

TEST(Submit, AnEngineThatEndsAnswersWhatItAccepted) {
  std::vector<Future> answers;
  {
    const Engine engine = Open({.batch = {.max_batch = 2}});
    for (int i = 0; i < 20; ++i) answers.push_back(Submit(engine, {"rain"}));
  }
  for (Future& answer : answers) EXPECT_TRUE(answer.get().ok());
}

TEST(Submit, BatchLimitsAreChecked) {
  const Result<Engine> engine = Engine::Open(TinyModel().Write(), {.batch = {.max_batch = 0}});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().message(), "batch: max_batch must be at least 1, got 0");
}

TEST(Submit, ThreadsGetTheirOwnVectors) {
  const Engine engine = Open();
  std::vector<std::string> texts;
  std::vector<Embeddings> expected;
  for (int i = 0; i < 8; ++i) {
    texts.push_back("rain " + std::to_string(i));
    expected.push_back(engine.EmbedOne(texts.back()).value());
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 50; ++i) {
        const size_t which = (i * 5 + t) % texts.size();
        if (i % 4 == 3) {
          EXPECT_TRUE(SameBits(engine.EmbedOne(texts[which]).value(), expected[which]));
        } else {
          EXPECT_TRUE(SameBits(Submit(engine, {texts[which]}).get().value(), expected[which]));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sprat
