#include "batcher/batch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sprat {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

Clock::time_point At(int ms) { return Clock::time_point(milliseconds(ms)); }

struct Named final : Job {
  Named(std::string job_name, std::vector<uint32_t> tokens)
      : Job(std::move(tokens)), name(std::move(job_name)) {}
  const std::string name;
};

std::shared_ptr<Job> Single(std::string name, uint32_t tokens = 1) {
  return std::make_shared<Named>(std::move(name), std::vector<uint32_t>{tokens});
}

std::shared_ptr<Job> Array(std::string name, std::vector<uint32_t> tokens) {
  return std::make_shared<Named>(std::move(name), std::move(tokens));
}

const std::string& NameOf(const std::shared_ptr<Job>& job) {
  return static_cast<const Named&>(*job).name;
}

// A batch as text: a single by its name, a part of an array as "name[first,count]".
std::vector<std::string> Take(BatchQueue& queue, int ms) {
  std::vector<std::string> batch;
  for (const Slice& slice : queue.Take(At(ms))) {
    const bool single = slice.job->texts() == 1;
    batch.push_back(single ? NameOf(slice.job)
                           : NameOf(slice.job) + "[" + std::to_string(slice.first) + "," +
                                 std::to_string(slice.count) + "]");
  }
  return batch;
}

// Ends the batch and says who was answered and how: "name ok" or "name: message".
std::vector<std::string> Finish(BatchQueue& queue, const Result<size_t>& rows, int ms) {
  std::vector<Answer> answers;
  queue.Finish(rows, At(ms), answers);
  std::vector<std::string> said;
  for (const Answer& answer : answers) {
    said.push_back(NameOf(answer.job) +
                   (answer.result.ok() ? " ok" : ": " + answer.result.error().message()));
  }
  return said;
}

TEST(BatchQueue, WindowZeroRunsALoneRequestAtOnceAndJoinsTheRest) {
  BatchQueue queue({});
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  EXPECT_THAT(Take(queue, 0), ElementsAre("a"));
  ASSERT_TRUE(queue.Add(Single("b"), At(1)).ok());
  ASSERT_TRUE(queue.Add(Single("c"), At(2)).ok());
  EXPECT_THAT(Finish(queue, 1, 3), ElementsAre("a ok"));
  EXPECT_THAT(Take(queue, 3), ElementsAre("b", "c"));
  EXPECT_THAT(Finish(queue, 2, 4), ElementsAre("b ok", "c ok"));
  EXPECT_EQ(queue.NextDue(At(4)), std::nullopt);
  EXPECT_THAT(Take(queue, 4), IsEmpty());
}

TEST(BatchQueue, LaterRequestsDoNotExtendTheWindow) {
  BatchQueue queue({.window = milliseconds(25), .max_batch = 16});
  ASSERT_TRUE(queue.Add(Single("a"), At(100)).ok());
  ASSERT_TRUE(queue.Add(Single("b"), At(124)).ok());
  EXPECT_EQ(queue.NextDue(At(124)), At(125));
  EXPECT_THAT(Take(queue, 124), IsEmpty());
  EXPECT_THAT(Take(queue, 125), ElementsAre("a", "b"));
}

TEST(BatchQueue, AFullBatchDoesNotWaitForTheWindow) {
  BatchQueue queue({.window = milliseconds(25), .max_batch = 2});
  ASSERT_TRUE(queue.Add(Single("a"), At(100)).ok());
  ASSERT_TRUE(queue.Add(Single("b"), At(101)).ok());
  ASSERT_TRUE(queue.Add(Single("c"), At(102)).ok());
  EXPECT_THAT(Take(queue, 102), ElementsAre("a", "b"));
  Finish(queue, 2, 103);
  // c was left over: its window opened when it came.
  EXPECT_EQ(queue.NextDue(At(103)), At(127));
}

TEST(BatchQueue, TokensFillABatchToo) {
  BatchQueue queue({.window = milliseconds(25), .max_tokens = 10});
  ASSERT_TRUE(queue.Add(Single("a", 6), At(0)).ok());
  EXPECT_THAT(Take(queue, 0), IsEmpty());
  ASSERT_TRUE(queue.Add(Single("b", 5), At(1)).ok());
  EXPECT_THAT(Take(queue, 1), ElementsAre("a"));
  EXPECT_EQ(queue.queued().tokens, 5u);
}

TEST(BatchQueue, AWindowThatEndsWhileTheDeviceIsBusyIsDueWhenItBecomesFree) {
  BatchQueue queue({.window = milliseconds(25)});
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  EXPECT_THAT(Take(queue, 25), ElementsAre("a"));
  ASSERT_TRUE(queue.Add(Single("b"), At(30)).ok());
  Finish(queue, 1, 90);
  EXPECT_EQ(queue.NextDue(At(90)), At(90));
  EXPECT_THAT(Take(queue, 90), ElementsAre("b"));
}

TEST(BatchQueue, WhoOpenedTheWindowMayLeave) {
  BatchQueue queue({.window = milliseconds(25)});
  const std::shared_ptr<Job> a = Single("a");
  ASSERT_TRUE(queue.Add(a, At(0)).ok());
  ASSERT_TRUE(queue.Add(Single("b"), At(10)).ok());
  EXPECT_TRUE(queue.Cancel(a));
  EXPECT_THAT(Take(queue, 25), ElementsAre("b"));
  Finish(queue, 1, 26);
  // Nobody is left: the next window is a new one.
  ASSERT_TRUE(queue.Add(Single("c"), At(100)).ok());
  EXPECT_EQ(queue.NextDue(At(100)), At(125));
}

TEST(BatchQueue, AnArrayIsCutIntoChunksInOrder) {
  BatchQueue queue({.max_tokens = 10});
  ASSERT_TRUE(queue.Add(Array("A", {4, 6, 1, 20, 3}), At(0)).ok());
  EXPECT_EQ(queue.queued().tokens, 34u);
  EXPECT_THAT(Take(queue, 0), ElementsAre("A[0,2]"));
  EXPECT_EQ(queue.queued().tokens, 24u);
  EXPECT_EQ(queue.queued().requests, 1u);
  EXPECT_THAT(Finish(queue, 2, 1), IsEmpty());
  EXPECT_THAT(Take(queue, 1), ElementsAre("A[2,1]"));
  Finish(queue, 1, 2);
  EXPECT_THAT(Take(queue, 2), ElementsAre("A[3,1]"));  // longer than a chunk: alone
  Finish(queue, 1, 3);
  EXPECT_THAT(Take(queue, 3), ElementsAre("A[4,1]"));
  EXPECT_EQ(queue.queued().requests, 0u);
  EXPECT_THAT(Finish(queue, 1, 4), ElementsAre("A ok"));
}

TEST(BatchQueue, SinglesRunBetweenTheChunksOfAnArray) {
  BatchQueue queue({.max_batch = 2, .max_tokens = 2});
  ASSERT_TRUE(queue.Add(Array("A", {2, 2, 2}), At(0)).ok());
  EXPECT_THAT(Take(queue, 0), ElementsAre("A[0,1]"));
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(queue.Add(Single(name), At(1)).ok());
  Finish(queue, 1, 2);
  EXPECT_THAT(Take(queue, 2), ElementsAre("a", "b"));
  ASSERT_TRUE(queue.Add(Single("d"), At(3)).ok());
  Finish(queue, 2, 3);
  // c waited when the chunk ended and goes first; d rides along, for c's batch has room.
  EXPECT_THAT(Take(queue, 3), ElementsAre("c", "d"));
  ASSERT_TRUE(queue.Add(Single("e"), At(4)).ok());
  Finish(queue, 2, 4);
  // e came later: without this turn a stream of singles would starve the array.
  EXPECT_THAT(Take(queue, 4), ElementsAre("A[1,1]"));
  Finish(queue, 1, 5);
  EXPECT_THAT(Take(queue, 5), ElementsAre("e"));
  Finish(queue, 1, 6);
  EXPECT_THAT(Take(queue, 6), ElementsAre("A[2,1]"));
  EXPECT_THAT(Finish(queue, 1, 7), ElementsAre("A ok"));
}

TEST(BatchQueue, ArraysTakeTurns) {
  BatchQueue queue({.max_tokens = 2});
  ASSERT_TRUE(queue.Add(Array("A", {2, 2}), At(0)).ok());
  ASSERT_TRUE(queue.Add(Array("B", {2, 2}), At(0)).ok());
  for (const char* chunk : {"A[0,1]", "B[0,1]", "A[1,1]", "B[1,1]"}) {
    EXPECT_THAT(Take(queue, 0), ElementsAre(chunk));
    Finish(queue, 1, 0);
  }
}

TEST(BatchQueue, WithAWindowAnArrayHoldsTheDeviceToItsEnd) {
  BatchQueue queue({.window = milliseconds(25), .max_tokens = 2});
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  ASSERT_TRUE(queue.Add(Array("A", {2, 2}), At(1)).ok());
  ASSERT_TRUE(queue.Add(Array("B", {2, 2}), At(1)).ok());
  EXPECT_THAT(Take(queue, 1), ElementsAre("A[0,1]"));  // a's window is still open
  Finish(queue, 1, 50);
  EXPECT_THAT(Take(queue, 50), ElementsAre("A[1,1]"));  // a and B wait for the whole of A
  EXPECT_THAT(Finish(queue, 1, 99), ElementsAre("A ok"));
  EXPECT_THAT(Take(queue, 99), ElementsAre("a"));
}

TEST(BatchQueue, CancelBeforeTheJobIsAddedIsRemembered) {
  BatchQueue queue({});
  const std::shared_ptr<Job> a = Single("a");
  EXPECT_FALSE(queue.Cancel(a));
  const Result<void> added = queue.Add(a, At(0));
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code(), ErrorCode::kCancelled);
  EXPECT_THAT(Take(queue, 0), IsEmpty());
}

TEST(BatchQueue, AJobOfAnotherQueueIsLeftAlone) {
  BatchQueue queue({}), other({});
  const std::shared_ptr<Job> a = Single("a");
  ASSERT_TRUE(queue.Add(a, At(0)).ok());
  EXPECT_FALSE(other.Cancel(a));
  EXPECT_THAT(Take(queue, 0), ElementsAre("a"));
}

TEST(BatchQueue, CancelWhileWaitingRemovesTheText) {
  BatchQueue queue({.window = milliseconds(5)});
  const std::shared_ptr<Job> b = Single("b", 7);
  ASSERT_TRUE(queue.Add(Single("a", 2), At(0)).ok());
  ASSERT_TRUE(queue.Add(b, At(1)).ok());
  EXPECT_TRUE(queue.Cancel(b));
  EXPECT_EQ(queue.queued().requests, 1u);
  EXPECT_EQ(queue.queued().tokens, 2u);
  EXPECT_THAT(Take(queue, 5), ElementsAre("a"));
}

TEST(BatchQueue, CancelInFlightAnswersOnlyThatOne) {
  BatchQueue queue({});
  const std::shared_ptr<Job> b = Single("b");
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  ASSERT_TRUE(queue.Add(b, At(0)).ok());
  EXPECT_THAT(Take(queue, 0), ElementsAre("a", "b"));
  EXPECT_TRUE(queue.Cancel(b));
  EXPECT_THAT(Finish(queue, 2, 1), ElementsAre("a ok"));
}

TEST(BatchQueue, CancelAfterTheAnswerIsIgnored) {
  BatchQueue queue({});
  const std::shared_ptr<Job> a = Single("a");
  ASSERT_TRUE(queue.Add(a, At(0)).ok());
  Take(queue, 0);
  EXPECT_THAT(Finish(queue, 1, 1), ElementsAre("a ok"));
  EXPECT_FALSE(queue.Cancel(a));
  EXPECT_FALSE(queue.Cancel(a));
}

TEST(BatchQueue, CancellingAnArrayDropsItsLaterChunks) {
  BatchQueue queue({.max_tokens = 2});
  const std::shared_ptr<Job> running = Array("A", {2, 2, 2});
  const std::shared_ptr<Job> waiting = Array("B", {2, 2});
  ASSERT_TRUE(queue.Add(running, At(0)).ok());
  ASSERT_TRUE(queue.Add(waiting, At(0)).ok());
  EXPECT_THAT(Take(queue, 0), ElementsAre("A[0,1]"));
  EXPECT_TRUE(queue.Cancel(running));
  EXPECT_TRUE(queue.Cancel(waiting));
  EXPECT_EQ(queue.queued().requests, 0u);
  EXPECT_EQ(queue.queued().tokens, 0u);
  EXPECT_THAT(Finish(queue, 1, 1), IsEmpty());
  EXPECT_EQ(queue.NextDue(At(1)), std::nullopt);
}

TEST(BatchQueue, CancellingAnArrayThatHoldsTheDeviceReleasesIt) {
  BatchQueue queue({.max_tokens = 2, .array_hold = true});
  const std::shared_ptr<Job> array = Array("A", {2, 2});
  ASSERT_TRUE(queue.Add(array, At(0)).ok());
  Take(queue, 0);
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  Finish(queue, 1, 1);
  EXPECT_TRUE(queue.Cancel(array));
  ASSERT_TRUE(queue.Add(Array("B", {2, 2}), At(1)).ok());
  EXPECT_THAT(Take(queue, 1), ElementsAre("a"));
}

TEST(BatchQueue, AnErrorReachesEveryJobOfTheBatchAndNoOther) {
  BatchQueue queue({.max_batch = 2});
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(queue.Add(Single(name), At(0)).ok());
  EXPECT_THAT(Take(queue, 0), ElementsAre("a", "b"));
  EXPECT_THAT(Finish(queue, Error(ErrorCode::kDevice, "lost"), 1),
              ElementsAre("a: lost", "b: lost"));
  EXPECT_THAT(Take(queue, 1), ElementsAre("c"));
  EXPECT_THAT(Finish(queue, 1, 2), ElementsAre("c ok"));
}

TEST(BatchQueue, AFailedChunkFailsTheWholeArray) {
  BatchQueue queue({.max_tokens = 2});
  ASSERT_TRUE(queue.Add(Array("A", {2, 2, 2}), At(0)).ok());
  Take(queue, 0);
  EXPECT_THAT(Finish(queue, Error(ErrorCode::kDevice, "lost"), 1), ElementsAre("A: lost"));
  EXPECT_EQ(queue.queued().requests, 0u);
  EXPECT_EQ(queue.queued().tokens, 0u);
  EXPECT_THAT(Take(queue, 1), IsEmpty());
}

TEST(BatchQueue, AWrongCountIsAnErrorForAll) {
  BatchQueue queue({});
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  ASSERT_TRUE(queue.Add(Single("b"), At(0)).ok());
  Take(queue, 0);
  std::vector<Answer> answers;
  queue.Finish(1, At(1), answers);
  ASSERT_EQ(answers.size(), 2u);
  for (const Answer& answer : answers) {
    ASSERT_FALSE(answer.result.ok());
    EXPECT_EQ(answer.result.error().code(), ErrorCode::kInternal);
    EXPECT_EQ(answer.result.error().message(), "the model returned 1 vectors for 2 texts");
  }
}

TEST(BatchQueue, AFullQueueRefusesAndRecovers) {
  BatchQueue queue({.max_queue_requests = 2});
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  ASSERT_TRUE(queue.Add(Array("A", {1, 1}), At(0)).ok());
  const Result<void> full = queue.Add(Single("b"), At(0));
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), ErrorCode::kOverloaded);
  EXPECT_THAT(Take(queue, 0), ElementsAre("a"));
  EXPECT_TRUE(queue.Add(Single("c"), At(0)).ok());  // what runs does not wait
}

TEST(BatchQueue, DrainingRefusesAndDoesNotWaitForWindows) {
  BatchQueue queue({.window = milliseconds(25)});
  ASSERT_TRUE(queue.Add(Single("a"), At(0)).ok());
  queue.Drain();
  const Result<void> refused = queue.Add(Single("b"), At(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(queue.NextDue(At(1)), At(1));
  EXPECT_THAT(Take(queue, 1), ElementsAre("a"));
  EXPECT_THAT(Finish(queue, 1, 2), ElementsAre("a ok"));
}

TEST(BatchQueue, MeasuresWaitingAndRunning) {
  BatchQueue queue({.max_tokens = 2});
  const std::shared_ptr<Job> array = Array("A", {2, 2});
  ASSERT_TRUE(queue.Add(array, At(10)).ok());
  Take(queue, 15);
  Finish(queue, 1, 18);
  Take(queue, 30);
  Finish(queue, 1, 34);
  EXPECT_EQ(array->queue_time(), milliseconds(5));    // 15 - 10
  EXPECT_EQ(array->run_time(), milliseconds(3 + 4));  // not the pause between the chunks
}

}  // namespace
}  // namespace sprat
