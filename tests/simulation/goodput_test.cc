// SPDX-License-Identifier: Apache-2.0
// Goodput under overload: requests with a deadline that end in time, a second, at up to 20 times what the engine can
// do, for outputs of several lengths. Who has a key of its own, or a higher priority, does not notice the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/simulation/open_loop.h"

namespace dunlin::simulation {
namespace {

using engine::TimeNs;

constexpr TimeNs kLength = 8 * kSecond;

struct Shape {
  const char* name;
  double knee;  // requests a second, about the most that end in time
  int32_t prompt_tokens;
  int32_t max_tokens;
  TimeNs time_limit;
  bool ignore_eos;
};

// The first is limited by the number of sequences, the others by their deadlines.
constexpr Shape kShapes[] = {{"short outputs", 90, 64, 32, kSecond, true},
                             {"long outputs", 20, 64, 128, kSecond, true},
                             {"a tight deadline", 75, 64, 32, 300 * kMs, true},
                             {"long prompts", 30, 400, 16, kSecond, true},
                             {"outputs that end by themselves", 60, 64, 64, kSecond, false}};

Stream StreamOf(const Shape& shape, double rate) {
  return {.rate = rate,
          .to = kLength,
          .time_limit = shape.time_limit,
          .prompt_tokens = shape.prompt_tokens,
          .max_tokens = shape.max_tokens,
          .ignore_eos = shape.ignore_eos};
}

// Kept as a property of the test, too.
std::string Describe(const std::string& what, const StreamResult& result) {
  const std::string text = "offered " + std::to_string(result.offered) + ", refused " + std::to_string(result.refused) +
                           ", dropped " + std::to_string(result.dropped) + ", late " + std::to_string(result.late) +
                           ", in time " + std::to_string(result.in_time) + ": " + std::to_string(result.goodput) + "/s";
  testing::Test::RecordProperty(what, text);
  return what + ": " + text;
}

double PeakOf(const Shape& shape, const OpenLoopOptions& options) {
  double peak = 0.0;
  for (const double times : {0.6, 0.8, 1.0, 1.2, 1.5}) {
    const StreamResult result = RunOpenLoop({StreamOf(shape, times * shape.knee)}, options)[0];
    Describe(std::string(shape.name) + " x" + std::to_string(times), result);
    peak = std::max(peak, result.goodput);
  }
  return peak;
}

void ExpectGoodputAtOverload(const Shape& shape, const OpenLoopOptions& options, double share) {
  SCOPED_TRACE(shape.name);
  const double peak = PeakOf(shape, options);
  for (const double times : {3.0, 20.0}) {
    const StreamResult result = RunOpenLoop({StreamOf(shape, times * shape.knee)}, options)[0];
    EXPECT_GE(result.goodput, share * peak) << Describe(std::string(shape.name) + " x" + std::to_string(times), result);
  }
}

TEST(Goodput, StaysNearItsPeakAtTwentyTimesTheLoad) {
  for (const Shape& shape : kShapes) ExpectGoodputAtOverload(shape, {}, 0.9);
}

// What the gate lets through, because it does not know better, the scheduler ends before it begins.
TEST(Goodput, StaysNearItsPeakByTheQueueAlone) {
  for (const Shape& shape : kShapes) ExpectGoodputAtOverload(shape, {.gate = false}, 0.9);
}

// Spells of slow steps make a chance of what ends in time, so that the bound is wider. Outputs whose length is not
// known are no part of the promise.
TEST(Goodput, StaysNearItsPeakWhileStepsBecomeSlower) {
  for (const Shape& shape : kShapes) {
    if (shape.ignore_eos) ExpectGoodputAtOverload(shape, {.slow_spells = true}, 0.8);
  }
}

// Sequences that began beside few, with little time to spare, when many come that have much.
TEST(Goodput, WhatHasBegunIsNotMadeLateByWhatComes) {
  Stream tight = StreamOf(kShapes[0], 15);
  tight.max_tokens = 64;
  tight.time_limit = 300 * kMs;
  std::vector<Stream> streams = {tight};
  for (TimeNs from = kSecond; from < kLength; from += kSecond) {
    Stream burst = StreamOf(kShapes[0], 1500);
    burst.from = from;
    burst.to = from + 40 * kMs;
    burst.time_limit = 4 * kSecond;
    streams.push_back(burst);
  }
  const std::vector<StreamResult> results = RunOpenLoop(streams);
  EXPECT_LE(results[0].late, 1) << Describe("tight", results[0]);
  EXPECT_GE(results[0].in_time, 30) << Describe("tight", results[0]);
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_GE(results[i].in_time, results[i].offered * 9 / 10) << Describe("burst " + std::to_string(i), results[i]);
  }
}

// Outputs that begin together are short together, when their steps are quick, and long together.
TEST(Goodput, WhatBeginsTogetherIsNotLateTogether) {
  Stream quiet = StreamOf(kShapes[1], 5);
  quiet.prompt_tokens = 16;
  quiet.max_tokens = 400;
  quiet.time_limit = 4 * kSecond;
  Stream flood = quiet;
  flood.rate = 500;
  flood.from = 4 * kSecond;
  const StreamResult result = RunOpenLoop({quiet, flood}, {.context_ns = 1000.0})[1];
  EXPECT_LE(result.late, 2) << Describe("flood", result);
  EXPECT_GE(result.in_time, 15) << Describe("flood", result);
}

TEST(Goodput, NobodyIsRefusedBelowTheKnee) {
  for (const Shape& shape : kShapes) {
    const StreamResult result = RunOpenLoop({StreamOf(shape, 0.5 * shape.knee)})[0];
    EXPECT_EQ(result.refused + result.dropped, 0) << Describe(shape.name, result);
    EXPECT_EQ(result.in_time, result.offered) << shape.name;
  }
}

TEST(Goodput, IsWholeAgainSoonAfterAnOverload) {
  for (const Shape& shape : kShapes) {
    Stream flood = StreamOf(shape, 20 * shape.knee);
    flood.to = 4 * kSecond;
    Stream after = StreamOf(shape, 0.5 * shape.knee);
    after.from = flood.to + shape.time_limit;
    after.to = after.from + 4 * kSecond;
    const StreamResult result = RunOpenLoop({flood, after})[1];
    EXPECT_EQ(result.in_time, result.offered) << Describe(shape.name, result);
  }
}

TEST(Goodput, ABurstOnAnIdleEngineIsTaken) {
  Stream warm = StreamOf(kShapes[0], 5);
  Stream burst = StreamOf(kShapes[0], 2000);
  burst.from = warm.to + kSecond;
  burst.to = burst.from + 30 * kMs;
  const StreamResult result = RunOpenLoop({warm, burst})[1];
  EXPECT_GE(result.in_time, result.offered * 9 / 10) << Describe("burst", result);
}

TEST(Goodput, ALightTenantKeepsItsOwnUnderAFlood) {
  for (const Shape& shape : kShapes) {
    Stream flood = StreamOf(shape, 20 * shape.knee);
    flood.tenant = 1;
    Stream light = StreamOf(shape, 0.1 * shape.knee);
    light.tenant = 2;
    const std::vector<StreamResult> results = RunOpenLoop({flood, light});
    Describe(std::string(shape.name) + ", flood", results[0]);
    EXPECT_GE(results[1].in_time, results[1].offered * 9 / 10)
        << Describe(std::string(shape.name) + ", light", results[1]);
  }
}

TEST(Goodput, TwoTenantsThatFloodHaveAboutEqualShares) {
  for (const Shape& shape : kShapes) {
    Stream one = StreamOf(shape, 15 * shape.knee);
    one.tenant = 1;
    Stream other = StreamOf(shape, 5 * shape.knee);
    other.tenant = 2;
    const std::vector<StreamResult> results = RunOpenLoop({one, other});
    const double sum = results[0].goodput + results[1].goodput;
    EXPECT_GE(results[1].goodput, 0.35 * sum) << Describe(std::string(shape.name) + ", 15x", results[0]);
    EXPECT_LE(results[1].goodput, 0.65 * sum) << Describe(std::string(shape.name) + ", 5x", results[1]);
  }
}

TEST(Goodput, AHigherPriorityDoesNotNoticeAFlood) {
  for (const Shape& shape : kShapes) {
    const Stream flood = StreamOf(shape, 20 * shape.knee);
    Stream urgent = StreamOf(shape, 0.3 * shape.knee);
    urgent.priority = 1;
    const std::vector<StreamResult> results = RunOpenLoop({flood, urgent});
    Describe(std::string(shape.name) + ", flood", results[0]);
    EXPECT_GE(results[1].in_time, results[1].offered * 9 / 10)
        << Describe(std::string(shape.name) + ", urgent", results[1]);
  }
}

TEST(Goodput, RequestsWithoutADeadlineAreNeverRefusedForOthers) {
  Stream flood = StreamOf(kShapes[0], 20 * kShapes[0].knee);
  Stream patient = StreamOf(kShapes[0], 5);
  patient.time_limit = 0;
  const StreamResult result = RunOpenLoop({flood, patient})[1];
  EXPECT_EQ(result.in_time, result.offered) << Describe("patient", result);
}

}  // namespace
}  // namespace dunlin::simulation
