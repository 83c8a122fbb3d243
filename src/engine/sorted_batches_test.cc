// Batches of alike lengths, alone and as what a batch of the micro-batcher becomes.
#include "engine/sorted_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/submissions.h"

namespace sprat {
namespace {

using testing::ElementsAre;

// A text's vector is its number of tokens, then its first token. Remembers the texts of each call.
class CountingModel final : public Model {
 public:
  Result<void> Embed(const TokenBatch& batch, const OutputForm& form,
                     MatrixView<float> out) override {
    static_cast<void>(form);
    calls.emplace_back();
    for (size_t i = 0; i < batch.sequences(); ++i) {
      const std::span<const uint32_t> ids = batch.Sequence(i);
      calls.back().push_back(ids.size());
      const float row[] = {static_cast<float>(ids.size()), static_cast<float>(ids.front())};
      std::copy_n(row, out.columns, out.Row(i));
    }
    if (device != nullptr) {  // asked by another thread, for this one may have it
      held.push_back(!std::async(std::launch::async, [this] {
                        const bool free = device->try_lock();
                        if (free) device->unlock();
                        return free;
                      }).get());
    }
    if (calls.size() == failing_call) return Error(ErrorCode::kDevice, "the device is lost");
    return {};
  }
  size_t dimensions() const override { return 2; }
  size_t vocabulary_rows() const override { return 1000; }
  size_t max_sequence() const override { return 100'000; }
  std::string arithmetic() const override { return "counting"; }
  size_t weight_bytes() const override { return 0; }

  std::vector<std::vector<size_t>> calls;
  std::mutex* device = nullptr;
  std::vector<bool> held;  // in each call
  size_t failing_call = 0;
};

struct Texts {
  // Text i has lengths[i] tokens, of which each is i.
  explicit Texts(const std::vector<size_t>& lengths) : rows(lengths.size() * 2) {
    for (size_t i = 0; i < lengths.size(); ++i) ids.emplace_back(lengths[i], i);
  }
  void AddTo(SortedBatches& batches) {
    for (size_t i = 0; i < ids.size(); ++i) batches.Add(ids[i], rows.data() + 2 * i);
  }

  std::vector<std::vector<uint32_t>> ids;
  std::vector<float> rows;
};

TEST(SortedBatches, RunsAlikeLengthsTogetherAndPutsVectorsWhereTheyBelong) {
  CountingModel model;
  Texts texts({2, 5, 3, 9, 2});
  SortedBatches batches;
  batches.clear();
  texts.AddTo(batches);
  ASSERT_TRUE(batches.Run(model, {.form = {}, .columns = 2, .max_tokens = 8}).ok());
  EXPECT_THAT(model.calls, ElementsAre(ElementsAre(9u), ElementsAre(5u, 3u), ElementsAre(2u, 2u)));
  EXPECT_THAT(texts.rows, ElementsAre(2, 0, 5, 1, 3, 2, 9, 3, 2, 4));
}

TEST(SortedBatches, LocksTheDeviceForEachBatchIfItIsAskedTo) {
  CountingModel model;
  std::mutex device;
  model.device = &device;
  Texts texts({2, 2});
  SortedBatches batches;
  batches.clear();
  texts.AddTo(batches);
  SortedBatches::Call call{.form = {}, .columns = 2, .max_tokens = 2};
  ASSERT_TRUE(batches.Run(model, call).ok());
  call.device = &device;
  ASSERT_TRUE(batches.Run(model, call).ok());
  EXPECT_THAT(model.held, ElementsAre(false, false, true, true));
  EXPECT_TRUE(device.try_lock()) << "it is free again";
  device.unlock();
}

TEST(SortedBatches, AFailureEndsTheRunAndFreesTheDevice) {
  CountingModel model;
  model.failing_call = 2;
  std::mutex device;
  Texts texts({2, 2, 2});
  SortedBatches batches;
  batches.clear();
  texts.AddTo(batches);
  const Result<void> run =
      batches.Run(model, {.form = {}, .columns = 2, .max_tokens = 2, .device = &device});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code(), ErrorCode::kDevice);
  EXPECT_EQ(model.calls.size(), 2u);
  EXPECT_TRUE(device.try_lock());
  device.unlock();
}

// How the model is called for an array of 3 texts of `length` tokens, whose vectors are checked.
std::vector<std::vector<size_t>> CallsOfABatch(size_t length, size_t call_tokens) {
  CountingModel model;
  std::mutex device;
  Submissions submissions(model, device, {}, {.inline_tokens = 0, .call_tokens = call_tokens});
  std::promise<Result<Embeddings>> answered;
  const auto make = [&]() -> Result<std::shared_ptr<EmbedJob>> {
    Embeddings rows;
    rows.dimensions = 2;
    rows.tokens.assign(3, static_cast<uint32_t>(length));
    rows.truncated.assign(3, 0);
    rows.values.resize(6);
    return std::make_shared<EmbedJob>(std::vector<uint32_t>(3 * length, 7), true, std::move(rows));
  };
  submissions.Submit(make, [&](Result<Embeddings> result, const SubmitTimes&) {
    answered.set_value(std::move(result));
  });
  const Result<Embeddings> result = answered.get_future().get();
  EXPECT_TRUE(result.ok()) << result.error().message();
  const auto size = static_cast<float>(length);
  EXPECT_THAT(result.value().values, ElementsAre(size, 7, size, 7, size, 7));
  return model.calls;
}

TEST(Submissions, CallsTheModelWithAsManyTokensAsItIsToHave) {
  EXPECT_THAT(CallsOfABatch(2000, 4096),
              ElementsAre(ElementsAre(2000u, 2000u), ElementsAre(2000u)));
  EXPECT_THAT(CallsOfABatch(2000, 65536), ElementsAre(ElementsAre(2000u, 2000u, 2000u)));
}

}  // namespace
}  // namespace sprat
