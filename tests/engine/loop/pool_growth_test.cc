// SPDX-License-Identifier: Apache-2.0
// A KV pool that gets its memory while requests are served: who waits for it, who does not, and what becomes of
// requests where it ends with less than planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

// 4 of 64 pages, of 4 tokens, have memory.
EngineSetup FourPages() {
  EngineSetup setup;
  setup.runtime.first_pages = 4;
  return setup;
}

bool WaitUntilBacked(const EngineHarness& harness, int32_t pages) {
  return simulation::RecordingSink::WaitUntil([&] { return harness.engine->stats().pages_backed >= pages; });
}

TEST(PoolGrowthTest, ARequestWaitsForItsPagesWhileOthersAreServed) {
  EngineHarness harness(FourPages());
  const EngineClient large = harness.Submit(EngineHarness::Ask(40, 8));
  for (TokenId i = 0; i < 6; ++i) {
    const EngineClient small = harness.Submit(EngineHarness::Ask(4, 4, 10 + i));
    EngineHarness::ExpectAnswerAsAlone(small);
  }
  EXPECT_EQ(large.sink->num_finishes(), 0);
  EXPECT_EQ(harness.engine->stats().waiting, 1);
  EXPECT_EQ(harness.engine->stats().pages_missing, 0) << "not known yet";
  harness.GrowPool(12);
  EngineHarness::ExpectAnswerAsAlone(large);
  EXPECT_EQ(harness.engine->stats().pages_backed, 16);
  EXPECT_EQ(harness.engine->stats().pages_total, 64);
}

TEST(PoolGrowthTest, ASequenceThatGrowsBeyondThePoolGoesOnWithMorePages) {
  EngineHarness harness(FourPages());
  const EngineClient client = harness.Submit(EngineHarness::Ask(8, 40));
  ASSERT_TRUE(client.sink->WaitForTokens(8));
  EXPECT_EQ(client.sink->num_finishes(), 0) << "16 positions have pages";
  for (int i = 0; i < 8; ++i) harness.GrowPool(1);
  EngineHarness::ExpectAnswerAsAlone(client);
  EXPECT_EQ(harness.engine->stats().preemptions, 0U);
}

TEST(PoolGrowthTest, ProgressesForTheWatchdogAsItGetsMemory) {
  EngineHarness harness(FourPages());
  const EngineClient large = harness.Submit(EngineHarness::Ask(40, 8));
  ASSERT_TRUE(simulation::RecordingSink::WaitUntil([&] { return harness.engine->stats().waiting == 1; }));
  const uint64_t before = harness.engine->stats().progress;
  harness.GrowPool(1);
  ASSERT_TRUE(WaitUntilBacked(harness, 5));
  EXPECT_GT(harness.engine->stats().progress, before);
  EXPECT_FALSE(harness.engine->stats().idle);
  harness.engine->Cancel(*large.id, FinishReason::kCancelled);
  EXPECT_EQ(large.reason(), FinishReason::kCancelled);
}

TEST(PoolGrowthTest, DeadlinesAreKeptWhileRequestsWaitForMemory) {
  EngineHarness harness(FourPages());
  Request request = EngineHarness::Ask(40, 8);
  request.deadline = 1000;
  const EngineClient late = harness.Submit(request);
  ASSERT_TRUE(simulation::RecordingSink::WaitUntil([&] { return harness.engine->stats().waiting == 1; }));
  EngineHarness::now().store(1000);
  EXPECT_EQ(late.reason(), FinishReason::kDeadline);
}

TEST(PoolGrowthTest, StopsWhileRequestsWaitForMemory) {
  EngineHarness harness(FourPages());
  const EngineClient large = harness.Submit(EngineHarness::Ask(40, 8));
  harness.engine->StartDraining();
  harness.engine->Stop();
  EXPECT_EQ(large.reason(), FinishReason::kShutdown);
}

TEST(PoolGrowthTest, WithLessMemoryThanPlannedItEndsAndRefusesWhatCannotFit) {
  EngineSetup setup = FourPages();
  setup.runtime.final_pages = 8;
  EngineHarness harness(setup);
  const EngineClient large = harness.Submit(EngineHarness::Ask(40, 8));
  const EngineClient grows = harness.Submit(EngineHarness::Ask(4, 60, 20));
  const EngineClient fits = harness.Submit(EngineHarness::Ask(8, 20, 30));
  EXPECT_TRUE(harness.engine->Validate(large.request).ok());
  harness.GrowPool(4);
  harness.GrowPool(1);  // that was all
  EXPECT_EQ(large.reason(), FinishReason::kPoolTooSmall);
  EXPECT_TRUE(large.sink->tokens.empty());
  EXPECT_EQ(grows.reason(), FinishReason::kPoolTooSmall) << "its output outgrows the pool";
  EngineHarness::ExpectAnswerAsAlone(fits);
  EXPECT_EQ(harness.engine->stats().pages_missing, 56);
  EXPECT_EQ(harness.engine->limits().num_pages, 8);
  EXPECT_THAT(harness.engine->Validate(large.request).message(), testing::HasSubstr("limit is 8"));
  EXPECT_TRUE(harness.engine->Validate(fits.request).ok());
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(EngineHarness::Ask(16, 16)));
}

}  // namespace
}  // namespace dunlin::engine
