// SPDX-License-Identifier: Apache-2.0
// Full queues, draining, and stopping: who is refused, and with what.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

using testing::HasSubstr;

// The engine held in a step of one running request, so that all others queue.
std::unique_ptr<EngineHarness> Busy(const EngineSetup& setup, EngineClient* running) {
  auto harness = std::make_unique<EngineHarness>(setup);
  harness->gate.Close();
  *running = harness->Submit(EngineHarness::Ask(4, 2));
  harness->gate.WaitUntilHeld();
  return harness;
}

TEST(Bounds, RefusesARequestBeyondTheQueue) {
  EngineSetup setup;
  setup.options.max_queued_requests = 2;
  EngineClient running{{}, nullptr, RequestId{0}};
  const auto harness = Busy(setup, &running);
  const EngineClient first = harness->Submit(EngineHarness::Ask(4, 2));
  const EngineClient second = harness->Submit(EngineHarness::Ask(4, 2));
  const EngineClient third = harness->Submit(EngineHarness::Ask(4, 2));
  EXPECT_TRUE(absl::IsResourceExhausted(third.id.status()));
  EXPECT_THAT(std::string(third.id.status().message()),
              HasSubstr("queue has 2 requests; limit is 2 (scheduler.max_queued_requests)"));
  harness->gate.Open();
  for (const EngineClient* client : std::initializer_list<const EngineClient*>{&running, &first, &second})
    EngineHarness::ExpectAnswerAsAlone(*client);
  EXPECT_TRUE(harness->WaitForIdle());
  EXPECT_EQ(third.sink->num_finishes(), 0);
  EngineHarness::ExpectAnswerAsAlone(harness->Submit(EngineHarness::Ask(4, 2)));
}

TEST(Bounds, RefusesPromptTokensBeyondTheQueue) {
  EngineSetup setup;
  setup.options.max_queued_tokens = 50;
  EngineClient running{{}, nullptr, RequestId{0}};
  const auto harness = Busy(setup, &running);
  const EngineClient fits = harness->Submit(EngineHarness::Ask(45, 2));
  const EngineClient refused = harness->Submit(EngineHarness::Ask(6, 2));
  const EngineClient small = harness->Submit(EngineHarness::Ask(5, 2));
  EXPECT_TRUE(small.id.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.id.status()));
  EXPECT_THAT(std::string(refused.id.status().message()), HasSubstr("scheduler.max_queued_tokens"));
  harness->gate.Open();
  EngineHarness::ExpectAnswerAsAlone(fits);
}

TEST(Bounds, ACancelledRequestLeavesTheQueue) {
  EngineSetup setup;
  setup.options.max_queued_requests = 1;
  setup.options.max_sequences = 1;
  EngineClient running{{}, nullptr, RequestId{0}};
  const auto harness = Busy(setup, &running);
  const EngineClient queued = harness->Submit(EngineHarness::Ask(4, 2));
  harness->engine->Cancel(*queued.id, FinishReason::kCancelled);
  harness->gate.LetOneThrough();
  EXPECT_EQ(queued.reason(), FinishReason::kCancelled);
  EXPECT_TRUE(harness->Submit(EngineHarness::Ask(4, 2)).id.ok());
}

TEST(Bounds, DrainingRefusesNewRequestsAndFinishesOldOnes) {
  EngineClient running{{}, nullptr, RequestId{0}};
  const auto harness = Busy({}, &running);
  const EngineClient queued = harness->Submit(EngineHarness::Ask(30, 20));
  harness->engine->StartDraining();
  const EngineClient late = harness->Submit(EngineHarness::Ask(4, 2));
  EXPECT_TRUE(absl::IsUnavailable(late.id.status()));
  EXPECT_FALSE(harness->engine->stats().idle);
  harness->gate.Open();
  EngineHarness::ExpectAnswerAsAlone(running);
  EngineHarness::ExpectAnswerAsAlone(queued);
  EXPECT_TRUE(harness->WaitForIdle());
  EXPECT_EQ(late.sink->num_finishes(), 0);
}

TEST(Bounds, StopEndsEverythingAndIsIdempotent) {
  for (const int32_t depth : {1, 2}) {
    EngineSetup setup;
    setup.runtime.depth = depth;
    EngineClient running{{}, nullptr, RequestId{0}};
    const auto harness = Busy(setup, &running);
    std::vector<EngineClient> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(harness->Submit(EngineHarness::Ask(30, 90)));
    std::thread stopping([&harness] { harness->engine->Stop(); });
    const auto door_is_shut = [&harness] {
      return absl::IsUnavailable(harness->Submit(EngineHarness::Ask(1, 1)).id.status());
    };
    EXPECT_TRUE(simulation::RecordingSink::WaitUntil(door_is_shut));
    harness->gate.Open();
    stopping.join();
    harness->engine->Stop();
    for (const EngineClient& client : clients) {
      EXPECT_EQ(client.sink->num_finishes(), 1);
      EXPECT_EQ(client.reason(), FinishReason::kShutdown);
    }
    EXPECT_TRUE(absl::IsUnavailable(harness->Submit(EngineHarness::Ask(4, 2)).id.status()));
    EXPECT_TRUE(harness->engine->stats().idle);
    EXPECT_EQ(harness->engine->stats().pages_used, 0);
  }
}

TEST(Bounds, EveryAcceptedRequestEndsOnceUnderConcurrentSubmitCancelAndStop) {
  for (int round = 0; round < 20; ++round) {
    EngineSetup setup;
    setup.options.max_queued_requests = 16;
    setup.runtime.depth = 1 + round % 2;
    EngineHarness harness(setup);
    std::vector<std::vector<EngineClient>> clients(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < clients.size(); ++t) {
      threads.emplace_back([&harness, &mine = clients[t], seed = round * 8 + static_cast<int>(t)] {
        std::mt19937_64 random(static_cast<uint64_t>(seed));
        for (int i = 0; i < 60; ++i) {
          mine.push_back(harness.Submit(EngineHarness::Ask(static_cast<int32_t>(1 + random() % 40), 20)));
          if (mine.back().id.ok() && random() % 3 == 0) {
            harness.engine->Cancel(*mine.back().id, FinishReason::kCancelled);
            harness.engine->Cancel(*mine.back().id, FinishReason::kStop);
          }
          harness.engine->Cancel(random() % 500, FinishReason::kCancelled);
          if (harness.engine->stats().pages_used > 64) ADD_FAILURE() << "more pages used than there are";
        }
      });
    }
    if (round % 4 == 0) harness.engine->StartDraining();
    std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
    harness.engine->Stop();
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : clients) {
      for (const EngineClient& client : mine) EXPECT_EQ(client.sink->num_finishes(), client.id.ok() ? 1 : 0);
    }
    EXPECT_TRUE(harness.engine->stats().idle);
  }
}

}  // namespace
}  // namespace dunlin::engine
