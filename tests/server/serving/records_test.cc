// SPDX-License-Identifier: Apache-2.0
// What a request's record says of its way through the engine: waiting, preemption, the cached prefix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::SizeIs;

void ExpectInOrder(const RequestRecord& record) {
  EXPECT_GT(record.arrival, 0);
  EXPECT_GE(record.first_scheduled, record.arrival);
  EXPECT_GT(record.first_token, record.first_scheduled);
  EXPECT_GE(record.finished, record.first_token);
}

TEST(Records, ARequestThatWaitedWasScheduledAfterTheOneBeforeIt) {
  engine::EngineOptions options;
  options.max_sequences = 1;
  Harness harness({}, options);
  harness.models.control().held = true;
  ClientRequest request = ClientTextRequest("abc", 20);
  request.request_id = "first";
  const auto first = harness.Start(request);
  ASSERT_TRUE(Eventually([&] { return !harness.stats().idle; }));
  request.request_id = "second";
  const auto second = harness.Start(request);
  ASSERT_TRUE(Eventually([&] { return harness.stats().running + harness.stats().waiting == 2; }));
  harness.models.control().held = false;
  const FakeResponse response = second->WaitUntilFinished();
  ASSERT_TRUE(response.status.ok()) << response.status;
  const std::vector<RequestRecord> records = harness.observer.WaitFor(2);
  ASSERT_THAT(records, SizeIs(2));
  const RequestRecord& before = records[records[0].request_id == "first" ? 0 : 1];
  const RequestRecord& after = records[records[0].request_id == "first" ? 1 : 0];
  ExpectInOrder(before);
  ExpectInOrder(after);
  EXPECT_LT(after.arrival, before.finished) << "they did not meet";
  EXPECT_GT(after.first_scheduled, before.first_token);
  const auto ms = [](engine::TimeNs from, engine::TimeNs to) { return static_cast<double>(to - from) * 1e-6; };
  const Timings& timings = response.outputs.at(0).finish.timings;
  EXPECT_NEAR(timings.queue_ms, ms(after.arrival, after.first_scheduled), 1e-3);
  EXPECT_NEAR(timings.ttft_ms, ms(after.arrival, after.first_token), 1e-3);
  EXPECT_GE(timings.total_ms, timings.ttft_ms);
  EXPECT_LE(timings.total_ms, ms(after.arrival, after.finished) + 1e-3);
}

TEST(Records, CountPreemptionsOfAllOutputs) {
  Harness harness({}, {}, {}, 40);  // 640 tokens; each of the two may grow to 503
  ClientRequest request = ClientTextRequest("abc", 500);
  request.num_outputs = 2;
  harness.models.control().held = true;  // until both are there
  const auto call = harness.Start(request);
  ASSERT_TRUE(Eventually([&] { return harness.stats().running + harness.stats().waiting == 2; }));
  harness.models.control().held = false;
  EXPECT_TRUE(call->WaitUntilFinished().status.ok());
  const RequestRecord record = harness.observer.WaitFor(1).at(0);
  EXPECT_GT(record.preemptions, 0);
  EXPECT_EQ(record.preemptions, static_cast<int32_t>(harness.stats().preemptions));
  EXPECT_EQ(record.completion_tokens, 1000);
  EXPECT_EQ(record.num_outputs, 2);
  EXPECT_EQ(record.max_tokens, 500);
}

TEST(Records, CountTheCachedPrefix) {
  Harness harness;
  const std::string prompt(100, 'a');
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(harness.Start(ClientTextRequest(prompt, 2))->WaitUntilFinished().status.ok());
    harness.observer.WaitFor(i + 1);
  }
  const std::vector<RequestRecord> records = harness.observer.WaitFor(2);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].cached_tokens, 0);
  EXPECT_GT(records[1].cached_tokens, 0);
  EXPECT_LT(records[1].cached_tokens, records[1].prompt_tokens);
  EXPECT_EQ(records[1].cached_tokens, static_cast<int32_t>(harness.stats().prompt_tokens_cached));
}

}  // namespace
}  // namespace dunlin::server
