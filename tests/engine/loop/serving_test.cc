// SPDX-License-Identifier: Apache-2.0
// The engine at work: answers, statistics, sleep.
#include <time.h>

#include <chrono>
#include <thread>

#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

TEST(Serving, AnswersOneRequest) {
  EngineHarness harness;
  const EngineClient client = harness.Submit(EngineHarness::Ask(20, 10));
  ASSERT_TRUE(client.id.ok());
  EngineHarness::ExpectAnswerAsAlone(client);
}

TEST(Serving, AnswersConcurrentRequestsAsIfAloneAtBothDepths) {
  for (const int32_t depth : {1, 2}) {
    EngineSetup setup;
    setup.runtime.depth = depth;
    setup.runtime.num_pages = 40;  // too few for four long ones
    EngineHarness harness(setup);
    std::vector<std::vector<EngineClient>> clients(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&harness, &mine = clients[static_cast<size_t>(t)], t] {
        for (int i = 0; i < 40; ++i) {
          Request request = EngineHarness::Ask(1 + (t * 17 + i * 5) % 60, 1 + i % 40, t);
          request.profile.attention_backend = i % 2 == 0 ? AttentionBackend::kFlash : AttentionBackend::kMath;
          request.sampling.seed = static_cast<uint64_t>(i % 3);
          mine.push_back(harness.Submit(request));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : clients) {
      for (const EngineClient& client : mine) EngineHarness::ExpectAnswerAsAlone(client);
    }
    EXPECT_TRUE(harness.WaitForIdle());
    EXPECT_EQ(harness.engine->stats().pages_used, 0);
  }
}

TEST(Serving, CountsWhatItDid) {
  EngineHarness harness;
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(EngineHarness::Ask(20, 10)));
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(EngineHarness::Ask(21, 5)));
  ASSERT_TRUE(harness.WaitForIdle());
  const EngineStats stats = harness.engine->stats();
  EXPECT_EQ(stats.prompt_tokens, 41U);
  EXPECT_EQ(stats.prompt_tokens_cached, 20U);
  EXPECT_EQ(stats.prefix_queries, 41U);
  EXPECT_EQ(stats.prefix_hits, 20U);
  EXPECT_EQ(stats.generation_tokens, 15U);
  EXPECT_EQ(stats.steps, 11U + 5U);
  EXPECT_EQ(stats.progress, stats.steps) << "this runtime counts no operations";
  EXPECT_EQ(stats.pages_total, 64);
  EXPECT_FALSE(stats.failed);
}

TEST(Serving, KeepsTheLongestStep) {
  EngineHarness harness;
  for (const TimeNs duration : {300, 700, 200}) {
    harness.gate.Close();
    const EngineClient client = harness.Submit(EngineHarness::Ask(2, 1));
    harness.gate.WaitUntilHeld();
    EngineHarness::now() += duration;
    harness.gate.Open();
    EngineHarness::ExpectAnswerAsAlone(client);
  }
  ASSERT_TRUE(harness.WaitForIdle());
  EXPECT_EQ(harness.engine->stats().longest_step_ns, 700);
}

TEST(Serving, TellsRunningFromWaiting) {
  EngineHarness harness;
  harness.gate.Close();
  std::vector<EngineClient> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(harness.Submit(EngineHarness::Ask(2, 3)));
  harness.gate.LetOneThrough();
  harness.gate.LetOneThrough();
  const EngineStats stats = harness.engine->stats();
  EXPECT_EQ(stats.running, 4);
  EXPECT_EQ(stats.waiting, 2);
  EXPECT_FALSE(stats.idle);
  harness.gate.Open();
  for (const EngineClient& client : clients) EngineHarness::ExpectAnswerAsAlone(client);
}

TEST(Serving, StampsTheArrivalOfARequestThatBringsNone) {
  EngineHarness harness;
  EngineHarness::now().store(77);
  const EngineClient stamped = harness.Submit(EngineHarness::Ask(2, 1));
  Request early = EngineHarness::Ask(2, 1);
  early.arrival = 33;
  const EngineClient own = harness.Submit(early);
  EXPECT_EQ(stamped.reason(), FinishReason::kLength);
  EXPECT_EQ(stamped.sink->info.arrival, 77);
  EXPECT_EQ(own.reason(), FinishReason::kLength);
  EXPECT_EQ(own.sink->info.arrival, 33);
}

TEST(Serving, SleepsWhenIdle) {
  EngineHarness harness;
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(EngineHarness::Ask(5, 5)));
  ASSERT_TRUE(harness.WaitForIdle());
  const auto cpu_ns = [] {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
  };
  const int64_t calls = EngineHarness::clock_calls();
  const int64_t before = cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(EngineHarness::clock_calls(), calls);
  EXPECT_LT(cpu_ns() - before, 20000000);
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(EngineHarness::Ask(5, 5)));
}

TEST(Serving, LetsGoOfASinkWhenIdle) {
  EngineHarness harness;
  EngineClient client = harness.Submit(EngineHarness::Ask(5, 5));
  EXPECT_EQ(client.reason(), FinishReason::kLength);
  const std::weak_ptr<simulation::RecordingSink> sink = client.sink;
  client.sink.reset();
  EXPECT_TRUE(simulation::RecordingSink::WaitUntil([&sink] { return sink.expired(); }));
}

class CountingObserver : public StepObserver {
 public:
  void OnStep(int32_t num_tokens, int32_t num_sequences, TimeNs) override {
    tokens += num_tokens;
    sequences += num_sequences;
  }
  std::atomic<int64_t> tokens{0};
  std::atomic<int64_t> sequences{0};
};

TEST(Serving, TellsTheObserverAboutEveryStep) {
  CountingObserver observer;
  EngineSetup setup;
  setup.observer = &observer;
  EngineHarness harness(setup);
  EngineHarness::ExpectAnswerAsAlone(harness.Submit(EngineHarness::Ask(20, 10)));
  ASSERT_TRUE(harness.WaitForIdle());
  EXPECT_EQ(observer.tokens, 29);  // the last token drawn is never computed
  EXPECT_EQ(observer.sequences, 11);
}

}  // namespace
}  // namespace dunlin::engine
