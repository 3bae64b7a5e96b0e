// SPDX-License-Identifier: Apache-2.0
// SubscribeKvEvents: live events, replay, what happens when the log no longer has what a caller asks for, and the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/server/fronts/smg_worker/engine_client.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;

EdgeServerOptions WithEvents(int32_t max_batches) {
  EdgeServerOptions options;
  options.engine.kv_events.max_batches = max_batches;
  options.engine.kv_events.default_profile.precision = engine::Precision::kFp32;
  return options;
}

// A prompt of several pages that shares nothing with those of other seeds.
std::vector<uint32_t> Prompt(uint32_t seed) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 64; ++i) ids.push_back(10 + (seed * 97 + i * 7) % 800);
  return ids;
}

struct Subscription {
  Subscription(const EdgeServer& edge, uint64_t after) : client(edge) {
    common::SubscribeKvEventsRequest request;
    request.set_start_sequence_number(after);
    reader = client.stub()->SubscribeKvEvents(&call.context, request);
  }
  common::KvEventBatch Next() {
    common::KvEventBatch batch;
    EXPECT_TRUE(reader->Read(&batch));
    return batch;
  }
  StatusCode End() {
    common::KvEventBatch batch;
    while (reader->Read(&batch)) {
    }
    return reader->Finish().error_code();
  }
  EngineClient client;
  Deadline call;
  std::unique_ptr<grpc::ClientReader<common::KvEventBatch>> reader;
};

void Prefill(const EdgeServer& edge, uint32_t seed) {
  EXPECT_TRUE(EngineClient(edge).Generate(IdsRequest(Prompt(seed), 2)).status.ok());
}

TEST(VllmKvEvents, AreUnimplementedWithoutALog) {
  EdgeServer edge;
  EXPECT_EQ(Subscription(edge, 0).End(), StatusCode::UNIMPLEMENTED);
}

TEST(VllmKvEvents, TellWhatIsStoredWithoutGaps) {
  EdgeServer edge(WithEvents(100));
  Subscription live(edge, 0);
  live.reader->WaitForInitialMetadata();  // before there is any event
  Prefill(edge, 1);
  const common::KvEventBatch first = live.Next();
  EXPECT_EQ(first.sequence_number(), 1U);
  EXPECT_GT(first.timestamp(), 1e9);
  ASSERT_GT(first.events_size(), 0);
  const common::KvBlocksStored& stored = first.events(0).stored();
  EXPECT_FALSE(stored.has_parent_block_hash());
  ASSERT_EQ(stored.blocks_size(), 1);
  const std::vector<uint32_t> prompt = Prompt(1);
  const int32_t size = stored.blocks(0).block_size();
  EXPECT_THAT(stored.blocks(0).token_ids(), testing::ElementsAreArray(prompt.begin(), prompt.begin() + size));
  if (first.events_size() > 1) {
    EXPECT_EQ(first.events(1).stored().parent_block_hash(), stored.blocks(0).block_hash());
  }
  Prefill(edge, 2);
  EXPECT_EQ(live.Next().sequence_number(), 2U);
  live.call.context.TryCancel();
}

TEST(VllmKvEvents, ReplayBeginsAfterWhatTheCallerHas) {
  EdgeServer edge(WithEvents(100));
  Prefill(edge, 1);
  Prefill(edge, 2);
  Subscription all(edge, 0);
  EXPECT_EQ(all.Next().sequence_number(), 1U);
  EXPECT_EQ(all.Next().sequence_number(), 2U);
  Subscription rest(edge, 1);
  EXPECT_EQ(rest.Next().sequence_number(), 2U);
  all.call.context.TryCancel();
  rest.call.context.TryCancel();
}

TEST(VllmKvEvents, WhatIsNoLongerKeptIsOutOfRangeAndASnapshotFromTheBeginning) {
  EdgeServer edge(WithEvents(2));
  for (uint32_t seed = 1; seed <= 6; ++seed) Prefill(edge, seed);
  EXPECT_EQ(Subscription(edge, 1).End(), StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Subscription(edge, 1'000'000).End(), StatusCode::OUT_OF_RANGE) << "of another life of the worker";
  Subscription fresh(edge, 0);
  const common::KvEventBatch snapshot = fresh.Next();
  EXPECT_GT(snapshot.sequence_number(), 2U);
  EXPECT_TRUE(snapshot.events(0).has_cleared());
  EXPECT_GT(snapshot.events_size(), 6) << "every prompt's first block is still cached";
  Prefill(edge, 7);
  EXPECT_EQ(fresh.Next().sequence_number(), snapshot.sequence_number() + 1);
  fresh.call.context.TryCancel();
}

TEST(VllmKvEvents, AFlushIsTold) {
  EdgeServer edge(WithEvents(100));
  Prefill(edge, 1);
  Subscription live(edge, 0);
  EXPECT_EQ(live.Next().sequence_number(), 1U);
  common::FlushCacheResponse flushed;
  ASSERT_TRUE(live.client.Call(&wire::VllmEngine::Stub::FlushCache, common::FlushCacheRequest(), &flushed).ok());
  const common::KvEventBatch batch = live.Next();
  ASSERT_GT(batch.events_size(), 0);
  EXPECT_TRUE(batch.events(0).has_cleared() || batch.events(0).has_removed());
  live.call.context.TryCancel();
}

TEST(VllmKvEvents, SubscriptionsEndWhenTheServerDrains) {
  EdgeServer edge(WithEvents(100));
  Subscription live(edge, 0);
  live.reader->WaitForInitialMetadata();
  edge.server().StartDraining();
  EXPECT_EQ(live.End(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(Subscription(edge, 0).End(), StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace dunlin::server
