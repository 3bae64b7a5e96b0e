// SPDX-License-Identifier: Apache-2.0
// Constrained requests in a running engine: its mask thread, its own help, and sequences that end while their mask is
// being computed.
#include <algorithm>
#include <latch>
#include <set>
#include <thread>

#include "tests/engine/loop/engine_harness.h"
#include "tests/simulation/scripted_constraint.h"
#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

using simulation::Place;
using simulation::RecordingSink;
using simulation::ScriptedConstraint;

std::shared_ptr<ScriptedConstraint> AnyTokens() {
  return ScriptedConstraint::Chain({{{1, 2, 3, 4}}}, {kEos});
}

TEST(ConstraintThread, AnswersConcurrentRequestsAsIfAloneAtBothDepths) {
  for (const int32_t depth : {1, 2}) {
    EngineSetup setup;
    setup.runtime.depth = depth;
    setup.runtime.num_pages = 40;  // too few for four long ones
    EngineHarness harness(setup);
    std::vector<std::vector<EngineClient>> clients(3);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < clients.size(); ++t) {
      threads.emplace_back([&harness, &mine = clients[t], t] {
        simulation::Dice dice(t + 1);
        for (int i = 0; i < 40; ++i) {
          Request request = EngineHarness::Ask(dice.Between(1, 60), dice.Between(1, 40));
          request.sampling.seed = dice.Word() >> 1;
          request.profile.attention_backend = i % 2 == 0 ? AttentionBackend::kFlash : AttentionBackend::kMath;
          if (!dice.OneIn(4)) request.constraint = simulation::AnyConstraint(&dice, 50);
          mine.push_back(harness.Submit(request));
          if (dice.OneIn(6)) harness.engine->Cancel(*mine.back().id, FinishReason::kCancelled);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : clients) {
      for (const EngineClient& client : mine) {
        if (client.reason() != FinishReason::kCancelled) EngineHarness::ExpectAnswerAsAlone(client);
      }
    }
    EXPECT_TRUE(harness.WaitForIdle());
    EXPECT_EQ(harness.engine->stats().pages_used, 0);
  }
}

TEST(ConstraintThread, ComputesAMaskWhileTheStepThatNeedsItRuns) {
  EngineHarness harness;
  harness.gate.Close();
  std::atomic<int> fills{0};
  const auto constraint = AnyTokens();
  constraint->on_fill = [&fills] { ++fills; };
  Request request = EngineHarness::Ask(4, 20);
  request.constraint = constraint;
  const EngineClient client = harness.Submit(request);
  EXPECT_EQ(fills, 1) << "the first mask is computed by Submit";
  harness.gate.LetOneThrough();  // the step of the second token is held before it computes anything
  EXPECT_TRUE(RecordingSink::WaitUntil([&fills] { return fills == 2; }));
  harness.gate.Open();
  EngineHarness::ExpectAnswerAsAlone(client);
}

// Cancels itself with its first token, so that it ends when its next mask has just been asked for.
class CancellingSink : public RecordingSink {
 public:
  using RecordingSink::RecordingSink;
  bool OnToken(const TokenOutput& token) override {
    engine->Cancel(id, FinishReason::kCancelled);
    return RecordingSink::OnToken(token);
  }
  Engine* engine = nullptr;
  RequestId id = 0;
};

TEST(ConstraintThread, NobodyWaitsForTheMaskOfASequenceThatHasEnded) {
  std::latch released{1};
  std::atomic<int> fills{0};
  EngineHarness harness;
  harness.gate.Close();
  const auto stuck = AnyTokens();
  stuck->on_fill = [&] {
    if (++fills == 2) released.wait();
  };
  Request request = EngineHarness::Ask(4, 20);
  request.constraint = stuck;
  const auto sink = std::make_shared<CancellingSink>(64);
  sink->engine = harness.engine.get();
  sink->id = 1;
  ASSERT_EQ(*harness.engine->Submit(request, sink), 1U);
  harness.gate.Open();
  ASSERT_TRUE(sink->WaitForFinish());
  EXPECT_EQ(sink->info.reason, FinishReason::kCancelled);
  ASSERT_TRUE(RecordingSink::WaitUntil([&fills] { return fills == 2; }));
  // The mask thread is busy; the sequence is destroyed, and others go on: the engine thread computes their masks.
  for (int i = 0; i < 12; ++i) {
    Request other = EngineHarness::Ask(4 + i, 20);
    if (i % 2 == 0) other.constraint = AnyTokens();
    EngineHarness::ExpectAnswerAsAlone(harness.Submit(other));
  }
  released.count_down();
}

TEST(ConstraintThread, ARefusedRequestHasNoMaskComputed) {
  EngineSetup setup;
  setup.options.max_sequences = 1;
  setup.options.max_queued_requests = 1;
  EngineHarness harness(setup);
  harness.gate.Close();
  const EngineClient running = harness.Submit(EngineHarness::Ask(4, 5));
  harness.gate.WaitUntilHeld();
  const EngineClient queued = harness.Submit(EngineHarness::Ask(4, 5));
  Request request = EngineHarness::Ask(4, 5);
  std::atomic<int> fills{0};
  const auto constraint = AnyTokens();
  constraint->on_fill = [&fills] { ++fills; };
  request.constraint = constraint;
  EXPECT_EQ(harness.Submit(request).id.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fills, 0);
  harness.gate.Open();
  EngineHarness::ExpectAnswerAsAlone(running);
  EngineHarness::ExpectAnswerAsAlone(queued);
}

TEST(ConstraintThread, EveryOutputOfARequestHasAStateOfItsOwn) {
  EngineHarness harness;
  simulation::Dice dice(5);
  std::set<std::vector<TokenId>> answers;
  Request request = EngineHarness::Ask(9, 20);
  request.constraint = AnyTokens();
  std::vector<EngineClient> outputs;
  for (request.output_index = 0; request.output_index < kMaxOutputsPerRequest; ++request.output_index) {
    outputs.push_back(harness.Submit(request));
  }
  for (const EngineClient& output : outputs) {
    EngineHarness::ExpectAnswerAsAlone(output);
    answers.insert(output.sink->tokens);
  }
  EXPECT_EQ(answers.size(), outputs.size());
}

TEST(ConstraintThread, TokensAreForcedOnlyWherePrefillMatchesDecode) {
  for (const bool matches : {true, false}) {
    EngineSetup setup;
    setup.runtime.prefill_matches_decode = matches;
    EngineHarness harness(setup);
    Request request = EngineHarness::Ask(4, 30);
    request.constraint = ScriptedConstraint::Chain({{{5}}}, {kEos});
    EngineHarness::ExpectAnswerAsAlone(harness.Submit(request));
    ASSERT_TRUE(harness.WaitForIdle());
    EXPECT_EQ(harness.engine->stats().steps < 30, matches);
  }
}

TEST(ConstraintThread, StopsWithMasksPending) {
  for (int i = 0; i < 20; ++i) {
    EngineHarness harness;
    std::vector<EngineClient> clients;
    for (int c = 0; c < 8; ++c) {
      Request request = EngineHarness::Ask(4, 100);
      request.constraint = AnyTokens();
      clients.push_back(harness.Submit(request));
    }
    EXPECT_TRUE(clients[0].sink->WaitForTokens(1));
    harness.engine->Stop();
    for (const EngineClient& client : clients) EXPECT_EQ(client.sink->num_finishes(), 1);
  }
}

}  // namespace
}  // namespace dunlin::engine
