// SPDX-License-Identifier: Apache-2.0
// Batches of an encoder's calls: budgets, profiles, order, and that a large call does not hold up small ones after it.
#include "engine/encoder/encoder_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/encoder/calls.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

class EncoderSchedulerTest : public ::testing::Test {
 protected:
  std::shared_ptr<RecordingEncodeSink> Add(RequestId id, std::unique_ptr<EncodeCall> call) {
    auto sink = std::make_shared<RecordingEncodeSink>();
    auto live = std::make_unique<LiveCall>();
    live->id = id;
    live->call = std::move(call);
    live->sink = sink;
    scheduler_.Add(live.get());
    live_.push_back(std::move(live));
    return sink;
  }
  // The lengths of the next batch's inputs, which then count as computed.
  std::vector<int32_t> Step(TimeNs now = 1) {
    EncodeBatch* batch = scheduler_.Plan(now);
    std::vector<int32_t> lengths;
    int32_t tokens = 0;
    for (const BatchInput& input : batch->inputs) {
      lengths.push_back(input.num_tokens);
      tokens += input.num_tokens;
      input.vector[0] = static_cast<float>(input.num_tokens);
    }
    EXPECT_EQ(tokens, batch->num_tokens);
    EXPECT_LE(tokens, 20);
    if (!lengths.empty()) scheduler_.Commit(now);
    return lengths;
  }

  std::vector<std::unique_ptr<LiveCall>> live_;  // in order of Add
  EncoderScheduler scheduler_{{.max_calls = 8, .max_batch_inputs = 4, .max_batch_tokens = 20}};
};

class EncoderDeadlineTest : public EncoderSchedulerTest {
 protected:
  // A batch takes 10 and 1 for each token.
  std::vector<int32_t> TimedStep() {
    const EncodeBatch* batch = scheduler_.Plan(now_);
    std::vector<int32_t> lengths;
    for (const BatchInput& input : batch->inputs) lengths.push_back(input.num_tokens);
    if (lengths.empty()) return lengths;
    now_ += 10 + batch->num_tokens;
    scheduler_.Commit(now_);
    return lengths;
  }
  std::shared_ptr<RecordingEncodeSink> AddDue(const std::vector<int32_t>& lengths, TimeNs time_limit) {
    auto call = TestCall(lengths);
    if (time_limit > 0) call->request.deadline = now_ + time_limit;
    return Add(static_cast<RequestId>(live_.size()) + 1, std::move(call));
  }
  void Learn() {
    for (const int32_t tokens : {20, 1, 10, 20, 1, 10, 20, 1, 10}) {
      AddDue({tokens}, 0);
      TimedStep();
    }
  }
  static bool InTime(const EncodeCall& call) {
    return call.reason == FinishReason::kStop && call.finished <= call.request.deadline;
  }
  static bool WasDropped(const RecordingEncodeSink& sink) {
    return sink.num_finishes == 1 && sink.call->reason == FinishReason::kDeadline && sink.call->first_scheduled == 0 &&
           sink.call->finished < sink.call->request.deadline;
  }
  TimeNs now_ = 1000;
};

TEST_F(EncoderDeadlineTest, WhatCannotEndInTheNextBatchIsDroppedBesideOneThatCan) {
  Learn();
  const auto other = AddDue({18}, 0);
  const auto late = AddDue({2}, 20);  // the batch takes 30, alone it would take 12
  const auto in_time = AddDue({2}, 40);
  EXPECT_THAT(TimedStep(), ElementsAre(18, 2));
  EXPECT_TRUE(WasDropped(*late));
  EXPECT_EQ(other->call->reason, FinishReason::kStop);
  EXPECT_EQ(in_time->call->reason, FinishReason::kStop);
}

TEST_F(EncoderDeadlineTest, ABatchEndsBeforeTheDeadlinesOfItsCalls) {
  Learn();
  const auto first = AddDue({10}, 25);
  const auto second = AddDue({9}, 25);  // alone 19, both 29
  EXPECT_THAT(TimedStep(), ElementsAre(10));
  EXPECT_EQ(first->call->reason, FinishReason::kStop);
  EXPECT_THAT(TimedStep(), ElementsAre(9)) << "the only call is tried";
  EXPECT_EQ(second->num_finishes, 1);
}

TEST_F(EncoderDeadlineTest, TheOnlyCallIsTriedWhateverWasLearned) {
  Learn();
  AddDue({20}, 5);
  EXPECT_THAT(TimedStep(), ElementsAre(20));
}

TEST_F(EncoderDeadlineTest, WhereNoneCanEndInTimeTheFirstIsTried) {
  Learn();
  AddDue({20}, 5);
  const auto other = AddDue({20}, 5);
  EXPECT_THAT(TimedStep(), ElementsAre(20));
  EXPECT_TRUE(WasDropped(*other));
}

TEST_F(EncoderDeadlineTest, BeforeABatchHasRunNothingIsDropped) {
  AddDue({10}, 5);
  AddDue({10}, 5);
  EXPECT_THAT(TimedStep(), ElementsAre(10, 10));
}

// Twice as many calls as batches hold; each has the time of a batch and a half, which those that wait do not have left.
TEST_F(EncoderDeadlineTest, AFloodLeavesAsManyInTimeAsBatchesHold) {
  Learn();
  std::vector<std::shared_ptr<RecordingEncodeSink>> sinks;
  int in_time = 0;
  for (int step = 0; step < 50; ++step) {
    while (scheduler_.num_live() < 8) sinks.push_back(AddDue({5}, 45));
    TimedStep();
  }
  for (const auto& sink : sinks) in_time += sink->num_finishes == 1 && InTime(*sink->call);
  EXPECT_GE(in_time, 180) << "of 200";
}

TEST_F(EncoderSchedulerTest, FillsABatchFromSeveralCalls) {
  const auto first = Add(1, TestCall({3, 4}));
  const auto second = Add(2, TestCall({5}));
  EXPECT_THAT(Step(7), ElementsAre(3, 4, 5));
  ASSERT_EQ(first->num_finishes, 1);
  EXPECT_EQ(first->call->reason, FinishReason::kStop);
  EXPECT_EQ(first->call->first_scheduled, 7);
  EXPECT_THAT(first->call->vectors, ElementsAre(3, 0, 4, 0));
  EXPECT_THAT(second->call->vectors, ElementsAre(5, 0));
  EXPECT_TRUE(scheduler_.empty());
  EXPECT_EQ(scheduler_.counters().computed_tokens, 12U);
  EXPECT_EQ(scheduler_.counters().running, 0);
}

TEST_F(EncoderSchedulerTest, KeepsBothBudgets) {
  Add(1, TestCall({8, 8, 8, 1, 1, 1, 1, 1}));
  EXPECT_THAT(Step(), ElementsAre(8, 8));  // 24 tokens are too many
  EXPECT_EQ(scheduler_.counters().running, 1);
  EXPECT_THAT(Step(), ElementsAre(8, 1, 1, 1));  // five inputs are too many
  EXPECT_THAT(Step(), ElementsAre(1, 1));
  EXPECT_TRUE(scheduler_.empty());
}

TEST_F(EncoderSchedulerTest, ASmallCallPassesALargeOneAfterOneBatch) {
  const auto large = Add(1, TestCall(std::vector<int32_t>(12, 20)));
  const auto small = Add(2, TestCall({2}));
  EXPECT_THAT(Step(), ElementsAre(20));
  EXPECT_THAT(Step(), ElementsAre(2));  // 22 tokens would be too many: the large call waits for its turn
  EXPECT_EQ(small->num_finishes, 1);
  for (int i = 0; i < 11; ++i) EXPECT_THAT(Step(), ElementsAre(20));
  EXPECT_EQ(large->num_finishes, 1);
}

TEST_F(EncoderSchedulerTest, ABatchHasOneProfileAndNoneStarves) {
  const auto flash = Add(1, TestCall(std::vector<int32_t>(3, 20)));
  const auto math = Add(2, TestCall({1}, AttentionBackend::kMath));
  const auto late_flash = Add(3, TestCall({20}));
  EXPECT_THAT(Step(), ElementsAre(20));
  EXPECT_THAT(Step(), ElementsAre(1));
  EXPECT_EQ(math->num_finishes, 1);
  EXPECT_THAT(Step(), ElementsAre(20));
  EXPECT_EQ(late_flash->num_finishes, 1);
  EXPECT_EQ(flash->num_finishes, 0);
}

TEST_F(EncoderSchedulerTest, TheTenantThatHadLessComesFirstAndAFloodLeavesItAShortBatch) {
  constexpr TenantId kFlood = 1;
  constexpr TenantId kLight = 2;
  const auto flood = [&] { return TestCall(std::vector<int32_t>(200, 5), AttentionBackend::kFlash, kFlood); };
  Add(1, flood());
  Add(2, flood());
  for (int i = 0; i < 2 * Tenants::kWindowSteps; ++i) EXPECT_THAT(Step(), ElementsAre(5, 5, 5, 5));
  const auto first = Add(3, TestCall({12}, AttentionBackend::kFlash, kLight));
  EXPECT_THAT(Step(), ElementsAre(12)) << "a batch with more than a quarter has no room for the flood";
  EXPECT_EQ(first->num_finishes, 1);
  EXPECT_THAT(Step(), ElementsAre(5)) << "a quarter of the batch, while the other one is remembered";
  const auto second = Add(4, TestCall({2, 2}, AttentionBackend::kMath, kLight));
  EXPECT_THAT(Step(), ElementsAre(2, 2)) << "the profile is that of the first tenant's first call";
  EXPECT_EQ(second->num_finishes, 1);
  EXPECT_THAT(Step(Tenants::kMemory + 1), ElementsAre(5, 5, 5, 5)) << "forgotten";
}

TEST_F(EncoderSchedulerTest, TenantsThatAllWaitGetEqualParts) {
  Add(1, TestCall(std::vector<int32_t>(300, 5), AttentionBackend::kFlash, 1));
  Add(2, TestCall(std::vector<int32_t>(300, 4), AttentionBackend::kFlash, 2));
  Add(3, TestCall(std::vector<int32_t>(300, 4), AttentionBackend::kFlash, 2));
  int of_first = 0;
  int of_second = 0;
  for (int i = 0; i < 60; ++i) {
    for (const int32_t length : Step()) (length == 5 ? of_first : of_second) += length;
  }
  EXPECT_LE(std::abs(of_first - of_second), 20);
}

TEST_F(EncoderSchedulerTest, EndsOneCallExpiredCallsAndAll) {
  auto late = TestCall({20, 20});
  late->request.deadline = 5;
  const auto expiring = Add(1, std::move(late));
  const auto cancelled = Add(2, TestCall({20}));
  const auto left = Add(3, TestCall({20}));
  Step(1);
  scheduler_.End(live_[1].get(), FinishReason::kCancelled, 2);
  scheduler_.End(live_[1].get(), FinishReason::kCancelled, 2);  // it has ended
  scheduler_.EndExpired(4);
  EXPECT_EQ(expiring->num_finishes, 0);
  scheduler_.EndExpired(5);
  EXPECT_EQ(expiring->call->reason, FinishReason::kDeadline);
  EXPECT_EQ(expiring->call->finished, 5);
  EXPECT_EQ(cancelled->call->reason, FinishReason::kCancelled);
  EXPECT_EQ(cancelled->call->first_scheduled, 0);
  scheduler_.EndAll(FinishReason::kShutdown, 6);
  EXPECT_EQ(left->call->reason, FinishReason::kShutdown);
  EXPECT_TRUE(scheduler_.empty());
  EXPECT_THAT(scheduler_.retired(), ElementsAre(live_[1].get(), live_[0].get(), live_[2].get()));
  EXPECT_EQ(scheduler_.counters().ended_calls, 3U);
  EXPECT_EQ(scheduler_.counters().ended_tokens, 80U);
  EXPECT_EQ(scheduler_.counters().running, 0);
}

TEST_F(EncoderSchedulerTest, WhatIsNotFiniteEndsItsOwnCallAlone) {
  const auto bad = Add(1, TestCall({2, 3, 20}));
  const auto good = Add(2, TestCall({4}));
  EncodeBatch* batch = scheduler_.Plan(1);
  ASSERT_EQ(batch->inputs.size(), 3U);
  batch->inputs[1].finite = false;
  scheduler_.Commit(2);
  EXPECT_EQ(bad->call->reason, FinishReason::kNumerical);
  EXPECT_EQ(good->call->reason, FinishReason::kStop);
  EXPECT_TRUE(scheduler_.empty());
}

// Images of 4, 8 and 12 patches: two of them fill a batch of 20.
TEST_F(EncoderSchedulerTest, ImagesArePackedByTheirPatches) {
  EncoderScheduler scheduler({.max_calls = 8, .max_batch_inputs = 4, .max_batch_tokens = 20, .image = kTestImage});
  LiveCall live;
  live.call = TestImages({{2, 2}, {4, 2}, {2, 6}});
  const auto sink = std::make_shared<RecordingEncodeSink>();
  live.sink = sink;
  const EncodeCall& call = *live.call;
  scheduler.Add(&live);
  EncodeBatch* batch = scheduler.Plan(1);
  ASSERT_EQ(batch->inputs.size(), 2U);
  EXPECT_EQ(batch->num_tokens, 12);
  EXPECT_EQ(batch->inputs[1].grid, (ImageGrid{4, 2}));
  EXPECT_EQ(batch->inputs[1].patches[0], 4.0F) << "after the 4 patches of the first";
  EXPECT_EQ(batch->inputs[1].vector, call.vectors.data() + kTestDimensions) << "and its one row";
  scheduler.Commit(2);
  batch = scheduler.Plan(3);
  ASSERT_EQ(batch->inputs.size(), 1U);
  EXPECT_EQ(batch->inputs[0].patches[0], 12.0F);
  EXPECT_EQ(batch->inputs[0].vector, call.vectors.data() + 3 * kTestDimensions);
  EXPECT_EQ(batch->inputs[0].tokens, nullptr);
  scheduler.Commit(4);
  EXPECT_EQ(sink->num_finishes, 1);
  EXPECT_EQ(scheduler.counters().ended_tokens, 24U);
  EXPECT_EQ(scheduler.counters().computed_tokens, 24U);
}

TEST_F(EncoderSchedulerTest, ABatchGivesVectorsOrScores) {
  auto pairs = TestCall({4, 4});
  pairs->request.classify = true;
  pairs->request.first_lengths = {1, 3};
  Add(1, TestCall({2}));
  Add(2, std::move(pairs));
  Add(3, TestCall({3}));
  EXPECT_THAT(Step(), ElementsAre(2, 3));
  EncodeBatch* batch = scheduler_.Plan(2);
  ASSERT_EQ(batch->inputs.size(), 2U);
  EXPECT_TRUE(batch->classify);
  EXPECT_EQ(batch->inputs[0].first_length, 1);
  EXPECT_EQ(batch->inputs[1].first_length, 3);
  EXPECT_EQ(batch->inputs[1].pooling, Pooling::kCls) << "the head reads the first token";
  scheduler_.Commit(2);
}

}  // namespace
}  // namespace dunlin::engine
