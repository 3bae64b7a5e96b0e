// SPDX-License-Identifier: Apache-2.0
// Calls that would end after their deadline, at a model whose steps take 5 ms: refused before their prompt is
// tokenised, while another call runs.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "server/serving/record/errors.h"
#include "tests/server/serving/fake_front.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kMs = 1'000'000;

class DeadlineRefusalsTest : public testing::Test {
 protected:
  void SetUp() override {
    harness_.models.control().step_us = 5000;
    EXPECT_TRUE(harness_.Generate(Request(20)).status.ok());  // the engine learns what a step takes
    EXPECT_TRUE(harness_.EngineIdle());
  }

  static ClientRequest Request(int32_t max_tokens) {
    ClientRequest request = ClientTextRequest("abc", max_tokens);
    request.stopping.ignore_eos = true;
    return request;
  }
  FakeResponse GenerateWithin(engine::TimeNs time_limit) {
    return harness_.Generate(Request(100), harness_.core.now() + time_limit);
  }
  // Starts a call, and waits until it runs.
  std::shared_ptr<FakeGenerateCall> Occupy() {
    std::shared_ptr<FakeGenerateCall> call = harness_.Start(Request(200));
    EXPECT_TRUE(Eventually([&] { return harness_.stats().running == 1; }));
    return call;
  }

  Harness harness_;
};

TEST_F(DeadlineRefusalsTest, ACallThatWouldEndTooLateIsRefusedAtOnce) {
  const auto other = Occupy();
  const engine::TimeNs asked = harness_.core.now();
  const FakeResponse response = GenerateWithin(200 * kMs);  // 100 steps take 500 ms
  EXPECT_LT(harness_.core.now() - asked, 100 * kMs);
  EXPECT_EQ(ReasonName(response.status), "WOULD_MISS_DEADLINE") << response.status;
  EXPECT_TRUE(RetryAfterMs(response.status).has_value());
  EXPECT_TRUE(response.outputs.empty());
  EXPECT_TRUE(harness_.core.overload()->recent(harness_.core.now()));
  const std::vector<RequestRecord> records = harness_.observer.WaitFor(2);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].refusal_reason, "WOULD_MISS_DEADLINE");
  EXPECT_EQ(records[1].prompt_tokens, 0) << "before the prompt is tokenised";
  EXPECT_TRUE(other->WaitUntilFinished().status.ok());
}

TEST_F(DeadlineRefusalsTest, ACallWithEnoughTimeRunsBesideAnother) {
  const auto other = Occupy();
  EXPECT_TRUE(GenerateWithin(5000 * kMs).status.ok());
  EXPECT_TRUE(other->WaitUntilFinished().status.ok());
}

// An output that cannot end by itself has all that the context leaves.
TEST_F(DeadlineRefusalsTest, WithoutMaxTokensTheDefaultCounts) {
  const auto other = Occupy();
  ClientRequest request = Request(1);
  request.stopping.max_tokens = std::nullopt;
  const FakeResponse response = harness_.Generate(request, harness_.core.now() + 200 * kMs);
  EXPECT_EQ(ReasonName(response.status), "WOULD_MISS_DEADLINE") << response.status;
  EXPECT_TRUE(other->WaitUntilFinished().status.ok());
}

// Its output may end at the first token: what is not known refuses nobody.
TEST_F(DeadlineRefusalsTest, WhatStopsMayEndIsNotTakenForItsLongest) {
  const auto other = Occupy();
  ClientRequest request = Request(100);
  request.stopping.stop = {"no such text"};
  const FakeResponse response = harness_.Generate(request, harness_.core.now() + 200 * kMs);
  EXPECT_EQ(ReasonName(response.status), "DEADLINE") << response.status;
  EXPECT_TRUE(other->WaitUntilFinished().status.ok());
}

TEST_F(DeadlineRefusalsTest, AnIdleServerTries) {
  const FakeResponse response = GenerateWithin(200 * kMs);
  EXPECT_EQ(ReasonName(response.status), "DEADLINE") << response.status;
  EXPECT_FALSE(response.outputs.empty());
}

}  // namespace
}  // namespace dunlin::server
