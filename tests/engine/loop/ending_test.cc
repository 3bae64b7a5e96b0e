// SPDX-License-Identifier: Apache-2.0
// Cancels and deadlines, placed exactly: while a step is held, the world changes.
#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

TEST(EngineEnding, CancelFreesThePagesWithinOneStep) {
  EngineHarness harness;
  harness.gate.Close();
  const EngineClient kept = harness.Submit(EngineHarness::Ask(4, 20));
  const EngineClient cancelled = harness.Submit(EngineHarness::Ask(30, 20, 9));
  harness.gate.LetOneThrough();  // whatever came first
  harness.gate.LetOneThrough();
  EXPECT_GE(harness.engine->stats().pages_used, 4);
  harness.engine->Cancel(*cancelled.id, FinishReason::kCancelled);
  harness.gate.LetOneThrough();  // the step that was held ends; the next one is held
  EXPECT_EQ(cancelled.sink->num_finishes(), 1);
  EXPECT_EQ(cancelled.reason(), FinishReason::kCancelled);
  EXPECT_LE(harness.engine->stats().pages_used, 2);
  harness.gate.Open();
  EngineHarness::ExpectAnswerAsAlone(kept);
}

TEST(EngineEnding, FirstCancelNamesTheReason) {
  EngineHarness harness;
  harness.gate.Close();
  const EngineClient client = harness.Submit(EngineHarness::Ask(4, 20));
  harness.gate.WaitUntilHeld();
  harness.engine->Cancel(*client.id, FinishReason::kStop);
  harness.engine->Cancel(*client.id, FinishReason::kCancelled);
  harness.engine->Cancel(*client.id + 100, FinishReason::kCancelled);
  harness.gate.Open();
  EXPECT_EQ(client.reason(), FinishReason::kStop);
}

TEST(EngineEnding, DeadlinePassesInTheQueue) {
  EngineSetup setup;
  setup.options.max_sequences = 1;
  EngineHarness harness(setup);
  harness.gate.Close();
  const EngineClient running = harness.Submit(EngineHarness::Ask(4, 5));
  harness.gate.WaitUntilHeld();
  Request request = EngineHarness::Ask(4, 5);
  request.deadline = 100;
  const EngineClient queued = harness.Submit(request);
  harness.gate.LetOneThrough();
  EXPECT_EQ(queued.sink->num_finishes(), 0);
  EngineHarness::now().store(100);
  harness.gate.LetOneThrough();
  EXPECT_EQ(queued.reason(), FinishReason::kDeadline);
  EXPECT_EQ(queued.sink->info.first_scheduled, 0);
  harness.gate.Open();
  EngineHarness::ExpectAnswerAsAlone(running);
}

TEST(EngineEnding, DeadlinePassesInFlight) {
  EngineHarness harness;
  harness.gate.Close();
  Request request = EngineHarness::Ask(4, 1);
  request.deadline = 100;
  const EngineClient client = harness.Submit(request);
  harness.gate.WaitUntilHeld();
  EngineHarness::now().store(100);
  harness.gate.Open();
  EXPECT_EQ(client.reason(), FinishReason::kDeadline);  // not kLength, although its only token was computed
  EXPECT_TRUE(client.sink->tokens.empty());
  ASSERT_TRUE(harness.WaitForIdle());
  EXPECT_EQ(harness.engine->stats().pages_used, 0);
}

TEST(EngineEnding, DeadlineThatHasPassedAtSubmitIsNeverScheduled) {
  EngineHarness harness;
  EngineHarness::now().store(50);
  Request request = EngineHarness::Ask(4, 1);
  request.deadline = 40;
  EXPECT_EQ(harness.Submit(request).reason(), FinishReason::kDeadline);
  EXPECT_EQ(harness.engine->stats().steps, 0U);
}

}  // namespace
}  // namespace dunlin::engine
