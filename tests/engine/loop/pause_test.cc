// SPDX-License-Identifier: Apache-2.0
// Pausing: what becomes of requests in progress and of new ones in each mode, and that a kept one goes on as if nothing
// had been.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

bool WaitUntilPaused(const EngineHarness& harness, bool paused = true) {
  return simulation::RecordingSink::WaitUntil([&] { return harness.engine->stats().paused == paused; });
}

// Long enough for many steps, were any computed.
void LetStepsPass() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(PauseTest, KeptRequestsGoOnWithTheSameTokens) {
  EngineHarness harness;
  harness.gate.Close();
  std::vector<EngineClient> clients;
  for (TokenId i = 0; i < 3; ++i) clients.push_back(harness.Submit(EngineHarness::Ask(6, 30, 7 * i)));
  for (int pause = 0; pause < 5; ++pause) {
    harness.gate.LetOneThrough();
    harness.engine->Pause(PauseMode::kKeep);
    harness.gate.Open();
    ASSERT_TRUE(WaitUntilPaused(harness));
    const EngineStats stats = harness.engine->stats();
    EXPECT_GT(stats.pages_used, 0);
    LetStepsPass();
    EXPECT_EQ(harness.engine->stats().steps, stats.steps);
    EXPECT_EQ(harness.engine->stats().pages_used, stats.pages_used);
    harness.gate.Close();
    harness.engine->Resume();
  }
  harness.gate.Open();
  for (const EngineClient& client : clients) EngineHarness::ExpectAnswerAsAlone(client);
  EXPECT_EQ(harness.engine->stats().preemptions, 0U);
}

TEST(PauseTest, RequestsInProgressEndFirstWhenItWaits) {
  EngineHarness harness;
  harness.gate.Close();
  const EngineClient before = harness.Submit(EngineHarness::Ask(6, 10));
  harness.gate.WaitUntilHeld();
  harness.engine->Pause(PauseMode::kWait);
  const EngineClient after = harness.Submit(EngineHarness::Ask(6, 10, 20));
  harness.gate.Open();
  EngineHarness::ExpectAnswerAsAlone(before);
  ASSERT_TRUE(WaitUntilPaused(harness));
  LetStepsPass();
  EXPECT_TRUE(after.sink->tokens.empty());
  EXPECT_EQ(after.sink->num_finishes(), 0);
  harness.engine->Resume();
  EngineHarness::ExpectAnswerAsAlone(after);
}

TEST(PauseTest, AbortEndsRequestsAndHoldsNewOnes) {
  EngineHarness harness;
  harness.gate.Close();
  const EngineClient before = harness.Submit(EngineHarness::Ask(6, 60));
  harness.gate.LetOneThrough();
  harness.engine->Pause(PauseMode::kAbort);
  harness.gate.Open();
  EXPECT_EQ(before.reason(), FinishReason::kCancelled);
  ASSERT_TRUE(WaitUntilPaused(harness));
  EXPECT_EQ(harness.engine->stats().pages_used, 0);
  const EngineClient after = harness.Submit(EngineHarness::Ask(6, 10));
  LetStepsPass();
  EXPECT_EQ(after.sink->num_finishes(), 0);
  harness.engine->Resume();
  EngineHarness::ExpectAnswerAsAlone(after);
  ASSERT_TRUE(WaitUntilPaused(harness, false));
}

TEST(PauseTest, HeldRequestsCanBeCancelledAndExpire) {
  EngineHarness harness;
  harness.engine->Pause(PauseMode::kKeep);
  ASSERT_TRUE(WaitUntilPaused(harness));
  const EngineClient cancelled = harness.Submit(EngineHarness::Ask(6, 10));
  Request late = EngineHarness::Ask(6, 10);
  late.deadline = 100;
  const EngineClient expired = harness.Submit(late);
  const EngineClient kept = harness.Submit(EngineHarness::Ask(6, 10, 30));
  harness.engine->Cancel(*cancelled.id, FinishReason::kCancelled);
  EXPECT_EQ(cancelled.reason(), FinishReason::kCancelled);
  EngineHarness::now().store(100);
  EXPECT_EQ(expired.reason(), FinishReason::kDeadline);
  EXPECT_EQ(kept.sink->num_finishes(), 0);
  harness.engine->Resume();
  EngineHarness::ExpectAnswerAsAlone(kept);
}

TEST(PauseTest, StoppingAPausedEngineEndsWhatWaits) {
  EngineHarness harness;
  harness.gate.Close();
  const EngineClient running = harness.Submit(EngineHarness::Ask(6, 60));
  harness.gate.LetOneThrough();
  harness.engine->Pause(PauseMode::kKeep);
  harness.gate.Open();
  ASSERT_TRUE(WaitUntilPaused(harness));
  const EngineClient held = harness.Submit(EngineHarness::Ask(6, 10));
  harness.engine->Stop();
  EXPECT_EQ(running.reason(), FinishReason::kShutdown);
  EXPECT_EQ(held.reason(), FinishReason::kShutdown);
}

TEST(PauseTest, AChangeOfModeTakesEffect) {
  EngineHarness harness;
  harness.engine->Pause(PauseMode::kKeep);
  ASSERT_TRUE(WaitUntilPaused(harness));
  const EngineClient held = harness.Submit(EngineHarness::Ask(6, 10));
  harness.engine->Pause(PauseMode::kAbort);
  EXPECT_EQ(held.reason(), FinishReason::kCancelled);
  EXPECT_TRUE(harness.engine->stats().paused);
}

}  // namespace
}  // namespace dunlin::engine
