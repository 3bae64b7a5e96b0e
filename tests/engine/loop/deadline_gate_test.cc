// SPDX-License-Identifier: Apache-2.0
// Who is refused for a deadline before being queued: steps take 1 ms and 1 ms for each sequence in them.
#include "engine/loop/deadline_gate.h"

#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr int32_t kMaxSequences = 16;

class DeadlineGateTest : public testing::Test {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions options = SchedulerHarness::Defaults();
    options.max_sequences = kMaxSequences;
    options.max_tokens_per_step = 256;
    options.max_live = 200;
    options.cache.num_pages = 2000;
    return options;
  }

  void Add(int32_t max_tokens, TenantId tenant = kSharedTenant, int32_t priority = 0) {
    Request request = Ask(Prompt(4), max_tokens);
    request.arrival = harness_.now;
    request.tenant = tenant;
    request.priority = priority;
    harness_.Add(std::move(request));
    gate_.OnSubmit(tenant, priority);
  }
  void Step() {
    harness_.Launch();
    gate_.Publish(harness_.scheduler, harness_.now);
    if (harness_.plan.empty()) return;
    harness_.now += kMs * static_cast<TimeNs>(1 + harness_.plan.sequences.size());
    harness_.Collect();
    gate_.SetRunning(static_cast<int32_t>(harness_.scheduler.running().size()));
  }
  // All batches have been seen; nothing runs.
  void Learn() {
    for (int i = 0; i < kMaxSequences; ++i) {
      Add(40 + i);
      Step();
    }
    while (!harness_.scheduler.empty()) Step();
  }
  std::optional<DeadlineMiss> Check(int32_t max_tokens, TimeNs time_limit, TenantId tenant = kSharedTenant,
                                    int32_t priority = 0) const {
    DeadlineDemand demand = {.tenant = tenant, .priority = priority, .deadline = harness_.now + time_limit};
    demand.stopping.max_tokens = max_tokens;
    demand.stopping.ignore_eos = true;
    return gate_.Check(demand, harness_.now);
  }

  SchedulerHarness harness_{Options()};
  DeadlineGate gate_{kMaxSequences};
};

TEST_F(DeadlineGateTest, RefusesNothingBeforeItHasLearned) {
  for (int i = 0; i < 100; ++i) Add(1000);
  EXPECT_FALSE(Check(1000, kMs).has_value());
}

TEST_F(DeadlineGateTest, RefusesNothingWhileTheEngineIsIdle) {
  Learn();
  EXPECT_FALSE(Check(1000, kMs).has_value());
}

TEST_F(DeadlineGateTest, RefusesWhatWouldNotEndBesideThoseThatRun) {
  Learn();
  for (int i = 0; i < 10; ++i) Add(1000);
  Step();
  const std::optional<DeadlineMiss> miss = Check(20, 100 * kMs);  // 20 steps of 12 ms
  ASSERT_TRUE(miss.has_value());
  EXPECT_GT(miss->expected, 100 * kMs);
  EXPECT_EQ(miss->running, 10);
  EXPECT_EQ(miss->ahead, 0);
  EXPECT_FALSE(Check(20, 300 * kMs).has_value());
}

TEST_F(DeadlineGateTest, ADeadlineThatHasPassedIsNoLackOfCapacity) {
  Learn();
  for (int i = 0; i < 10; ++i) Add(1000);
  Step();
  EXPECT_TRUE(Check(20, 1).has_value());
  EXPECT_FALSE(Check(20, 0).has_value());
  EXPECT_FALSE(Check(20, -kMs).has_value());
}

TEST_F(DeadlineGateTest, CountsThoseThatWaitAlsoBeforeTheNextPlan) {
  Learn();
  for (int i = 0; i < kMaxSequences; ++i) Add(50);
  Step();
  const TimeNs enough = 24 * 18 * kMs;
  EXPECT_FALSE(Check(20, enough).has_value());
  for (int i = 0; i < 20; ++i) Add(50);
  const std::optional<DeadlineMiss> miss = Check(20, enough);
  ASSERT_TRUE(miss.has_value());
  EXPECT_EQ(miss->ahead, 20);
}

TEST_F(DeadlineGateTest, OfOtherTenantsCountsNoMoreThanOfItsOwn) {
  Learn();
  for (int i = 0; i < kMaxSequences; ++i) Add(50, 1);
  Step();
  for (int i = 0; i < 20; ++i) Add(50, 1);
  const TimeNs enough = 20 * 20 * kMs;
  EXPECT_TRUE(Check(20, enough, 1).has_value());
  EXPECT_FALSE(Check(20, enough, 2).has_value());
}

TEST_F(DeadlineGateTest, CountsNoneOfALowerPriority) {
  Learn();
  for (int i = 0; i < kMaxSequences; ++i) Add(50);
  Step();
  for (int i = 0; i < 20; ++i) Add(50);
  const TimeNs enough = 20 * 20 * kMs;
  EXPECT_TRUE(Check(20, enough).has_value());
  EXPECT_FALSE(Check(20, enough, kSharedTenant, 1).has_value());
}

}  // namespace
}  // namespace dunlin::engine
