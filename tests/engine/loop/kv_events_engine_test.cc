// SPDX-License-Identifier: Apache-2.0
// KV events of an engine with its thread: published as requests run, and before it sleeps.
#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

EngineSetup WithEvents(int32_t max_batches) {
  EngineSetup setup;
  setup.options.kv_events.max_batches = max_batches;
  return setup;
}

std::vector<KvEvent> EventsAfter(const KvEventLog& log, uint64_t number) {
  std::vector<KvEventBatch> batches;
  EXPECT_TRUE(log.Read(number, 1000, &batches).ok());
  std::vector<KvEvent> events;
  for (const KvEventBatch& batch : batches) events.insert(events.end(), batch.events.begin(), batch.events.end());
  return events;
}

TEST(KvEventsEngineTest, ThereIsNoLogUnlessItIsAskedFor) {
  const EngineHarness harness;
  EXPECT_EQ(harness.engine->kv_events(), nullptr);
}

TEST(KvEventsEngineTest, PagesOfAPromptAreStoredOnce) {
  EngineHarness harness(WithEvents(100));
  const Request request = EngineHarness::Ask(12, 3);
  for (int i = 0; i < 2; ++i) {
    EngineHarness::ExpectAnswerAsAlone(harness.Submit(request));
    ASSERT_TRUE(harness.WaitForIdle());
  }
  const std::vector<KvEvent> events = EventsAfter(*harness.engine->kv_events(), 0);
  ASSERT_EQ(events.size(), 3U);  // 14 tokens are computed
  std::vector<TokenId> tokens;
  KvBlockId parent = kNoKvBlock;
  for (const KvEvent& event : events) {
    EXPECT_EQ(event.kind, KvEventKind::kStored);
    EXPECT_EQ(event.parent, parent);
    EXPECT_EQ(event.domain, 0U);
    parent = event.block;
    tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  EXPECT_EQ(tokens, request.prompt);
}

TEST(KvEventsEngineTest, ASaltIsAnotherDomain) {
  EngineHarness harness(WithEvents(100));
  Request request = EngineHarness::Ask(8, 1);
  request.cache_salt = "tenant";
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(request));
  ASSERT_TRUE(harness.WaitForIdle());
  const std::vector<KvEvent> events = EventsAfter(*harness.engine->kv_events(), 0);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_NE(events[0].domain, 0U);
  EXPECT_EQ(events[0].domain, events[1].domain);
}

TEST(KvEventsEngineTest, ClearingTheCacheIsPublishedByAnIdleEngineToo) {
  EngineHarness harness(WithEvents(100));
  const Request request = EngineHarness::Ask(12, 3);
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(request));
  ASSERT_TRUE(harness.WaitForIdle());
  const std::shared_ptr<KvEventLog> log = harness.engine->kv_events();
  const uint64_t stored = log->last();
  harness.engine->ClearPrefixCache();
  ASSERT_TRUE(simulation::RecordingSink::WaitUntil([&] { return log->last() > stored; }));
  const std::vector<KvEvent> events = EventsAfter(*log, stored);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, KvEventKind::kCleared);
  EXPECT_TRUE(log->Snapshot().blocks.empty());
  const uint64_t hits = harness.engine->stats().prefix_hits;
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(request));
  EXPECT_EQ(harness.engine->stats().prefix_hits, hits);
}

}  // namespace
}  // namespace dunlin::engine
