#include "engine/fallback_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/submissions.h"

namespace sprat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Writes `value` into every column, or fails as told.
struct FakeModel final : Model {
  explicit FakeModel(float v) : value(v) {}

  Result<void> Embed(const TokenBatch& batch, const OutputForm& /*form*/,
                     MatrixView<float> out) override {
    ++calls;
    if (failure) return *failure;
    for (size_t i = 0; i < batch.sequences(); ++i) {
      for (size_t c = 0; c < out.columns; ++c) out.Row(i)[c] = value;
    }
    return {};
  }
  size_t dimensions() const override { return 2; }
  size_t vocabulary_rows() const override { return 10; }
  size_t max_sequence() const override { return 8; }
  std::string arithmetic() const override { return "fake"; }
  size_t weight_bytes() const override { return 0; }

  const float value;
  int calls = 0;
  std::optional<Error> failure;
};

const Error kLost(ErrorCode::kDevice, "waiting for the device: gone");

// A device that answers 1, a standby that answers 2.
struct Fixture {
  FakeModel* device = nullptr;
  int opened = 0;
  std::optional<Error> no_standby;
  std::vector<size_t> texts;  // of each report
  std::vector<bool> first;
  std::string why;

  std::unique_ptr<FallbackModel> Make() {
    auto owned = std::make_unique<FakeModel>(1.0f);
    device = owned.get();
    return std::make_unique<FallbackModel>(
        std::move(owned),
        [this]() -> Result<std::unique_ptr<Model>> {
          ++opened;
          if (no_standby) return *no_standby;
          return std::unique_ptr<Model>(std::make_unique<FakeModel>(2.0f));
        },
        [this](const Fallback& fallback) {
          texts.push_back(fallback.texts);
          first.push_back(fallback.first);
          why = fallback.why;
        });
  }
};

// `texts` texts of one token.
TokenBatch Texts(size_t texts) {
  TokenBatch batch;
  for (size_t i = 0; i < texts; ++i) batch.Append(std::vector<uint32_t>{1});
  return batch;
}

Result<std::vector<float>> Embed(Model& model, size_t texts) {
  std::vector<float> out(2 * texts, 0.0f);
  Result<void> done = model.Embed(Texts(texts), {}, MatrixView<float>(out.data(), texts, 2));
  if (!done.ok()) return std::move(done.error());
  return out;
}

TEST(FallbackModel, LeavesAWorkingDeviceAlone) {
  Fixture f;
  const std::unique_ptr<FallbackModel> model = f.Make();
  EXPECT_THAT(Embed(*model, 1).value(), ElementsAre(1.0f, 1.0f));
  EXPECT_EQ(f.opened, 0);
  EXPECT_TRUE(f.texts.empty());
  EXPECT_EQ(model->arithmetic(), "fake");
}

TEST(FallbackModel, AnswersTheBatchThatMetTheLossAndAllLaterOnes) {
  Fixture f;
  const std::unique_ptr<FallbackModel> model = f.Make();
  f.device->failure = kLost;
  EXPECT_THAT(Embed(*model, 2).value(), ElementsAre(2.0f, 2.0f, 2.0f, 2.0f));
  f.device->failure.reset();  // a driver that comes back is not asked: its memory is gone
  EXPECT_THAT(Embed(*model, 1).value(), ElementsAre(2.0f, 2.0f));
  EXPECT_EQ(f.device->calls, 1);
  EXPECT_EQ(f.opened, 1);
  EXPECT_THAT(f.texts, ElementsAre(2u, 1u));
  EXPECT_THAT(f.first, ElementsAre(true, false));
  EXPECT_EQ(f.why, "waiting for the device: gone");
}

TEST(FallbackModel, PassesOtherErrorsOnAndKeepsTheDevice) {
  Fixture f;
  const std::unique_ptr<FallbackModel> model = f.Make();
  for (const ErrorCode code : {ErrorCode::kInvalidArgument, ErrorCode::kOutOfMemory}) {
    f.device->failure = Error(code, "no");
    const Result<std::vector<float>> embedded = Embed(*model, 1);
    ASSERT_FALSE(embedded.ok());
    EXPECT_EQ(embedded.error().code(), code);
  }
  f.device->failure.reset();
  EXPECT_THAT(Embed(*model, 1).value(), ElementsAre(1.0f, 1.0f));
  EXPECT_EQ(f.opened, 0);
}

TEST(FallbackModel, WithoutAStandbyTheErrorNamesBothCauses) {
  Fixture f;
  const std::unique_ptr<FallbackModel> model = f.Make();
  f.device->failure = kLost;
  f.no_standby = Error(ErrorCode::kOutOfMemory, "no memory for weights");
  const Result<std::vector<float>> embedded = Embed(*model, 1);
  ASSERT_FALSE(embedded.ok());
  EXPECT_EQ(embedded.error().code(), ErrorCode::kDevice);
  EXPECT_THAT(embedded.error().message(), HasSubstr("waiting for the device: gone"));
  EXPECT_THAT(embedded.error().message(), HasSubstr("no memory for weights"));
  EXPECT_TRUE(f.texts.empty());
}

// As in the server: requests are answered, none with an error.
TEST(FallbackModel, SubmittedRequestsAreAnsweredByTheStandby) {
  Fixture f;
  const std::unique_ptr<FallbackModel> model = f.Make();
  f.device->failure = kLost;
  std::mutex device;
  Submissions submissions(*model, device, {}, {});
  for (int i = 0; i < 3; ++i) {
    Embeddings rows;
    rows.dimensions = 2;
    rows.tokens = {1};
    rows.truncated = {0};
    rows.values.resize(2);
    std::promise<Result<Embeddings>> answer;
    const auto job = std::make_shared<EmbedJob>(std::vector<uint32_t>{1}, true, std::move(rows));
    submissions.Submit([&] { return Result<std::shared_ptr<EmbedJob>>(job); },
                       [&](Result<Embeddings> result, const SubmitTimes&) {
                         answer.set_value(std::move(result));
                       });
    const Result<Embeddings> result = answer.get_future().get();
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_THAT(result.value().values, ElementsAre(2.0f, 2.0f));
  }
  EXPECT_EQ(f.device->calls, 1);
}

}  // namespace
}  // namespace sprat
