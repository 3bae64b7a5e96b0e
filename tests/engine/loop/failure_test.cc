// SPDX-License-Identifier: Apache-2.0
// A device that fails: everything ends with kInternal, and the engine says so and stays down.
#include "tests/engine/loop/engine_harness.h"

namespace dunlin::engine {
namespace {

void ExpectEverythingFails(const EngineSetup& setup) {
  EngineHarness harness(setup);
  harness.gate.Close();
  std::vector<EngineClient> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(harness.Submit(EngineHarness::Ask(10, 60)));
  harness.gate.Open();
  for (const EngineClient& client : clients) {
    EXPECT_EQ(client.reason(), FinishReason::kInternal);
    EXPECT_EQ(client.sink->num_finishes(), 1);
  }
  EXPECT_TRUE(harness.engine->stats().failed);
  EXPECT_TRUE(absl::IsInternal(harness.Submit(EngineHarness::Ask(4, 2)).id.status()));
  EXPECT_TRUE(harness.WaitForIdle());
  EXPECT_EQ(harness.engine->stats().pages_used, 0);
  harness.engine->Cancel(*clients[0].id, FinishReason::kCancelled);
  harness.engine->Stop();
}

TEST(Failure, OfALaunchEndsEverything) {
  for (const int32_t depth : {1, 2}) {
    EngineSetup setup;
    setup.runtime.depth = depth;
    setup.runtime.fail_launch_at = 5;
    ExpectEverythingFails(setup);
  }
}

TEST(Failure, OfACollectEndsEverything) {
  for (const int32_t depth : {1, 2}) {
    EngineSetup setup;
    setup.runtime.depth = depth;
    setup.runtime.fail_collect_at = 5;
    ExpectEverythingFails(setup);
  }
}

TEST(Failure, OfOneRowIsNotOne) {
  EngineHarness harness;
  Request poisoned = EngineHarness::Ask(10, 20);
  poisoned.sampling.seed = simulation::kPoison | 12;
  const EngineClient bad = harness.Submit(poisoned);
  const EngineClient good = harness.Submit(EngineHarness::Ask(10, 20, 5));
  EXPECT_EQ(bad.reason(), FinishReason::kNumerical);
  EngineHarness::ExpectAnswerAsAlone(good);
  EXPECT_FALSE(harness.engine->stats().failed);
}

}  // namespace
}  // namespace dunlin::engine
