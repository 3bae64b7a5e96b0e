// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/service_forecast.h"

#include <gtest/gtest.h>

namespace dunlin::engine {
namespace {

constexpr TimeNs kMillisecond = 1'000'000;
constexpr auto kAtLeast = ServiceForecast::Beyond::kAtLeast;

// 2 ms and 0.1 ms a sequence.
TimeNs StepOf(int32_t batch) {
  return 2 * kMillisecond + batch * kMillisecond / 10;
}

void Learn(ServiceForecast* forecast, int32_t batch, TimeNs now) {
  for (int i = 0; i < 50; ++i) forecast->LearnStep({.sequences = batch}, StepOf(batch), now);
}

StoppingParams Stopping(int32_t max_tokens, int32_t min_tokens = 0, bool ignore_eos = false) {
  StoppingParams stopping;
  stopping.max_tokens = max_tokens;
  stopping.min_tokens = min_tokens;
  stopping.ignore_eos = ignore_eos;
  return stopping;
}

FinishInfo EndOf(int32_t outputs) {
  FinishInfo info;
  info.completion_tokens = outputs;
  return info;
}

TEST(ServiceForecast, KnowsNothingAtFirst) {
  const ServiceForecast forecast;
  EXPECT_EQ(forecast.StepTime(1, kAtLeast), 0.0);
  EXPECT_EQ(forecast.LargestBatch({.outputs = 1000}, 1.0, 64, kAtLeast), 64);
  EXPECT_EQ(forecast.OutputsOf(Stopping(100)), 1);
}

TEST(ServiceForecast, InterpolatesBetweenBatchesThatItHasSeen) {
  ServiceForecast forecast;
  for (const int32_t batch : {1, 8, 32}) Learn(&forecast, batch, 1);
  for (const int32_t batch : {1, 4, 8, 20, 32}) {
    EXPECT_NEAR(forecast.StepTime(batch, kAtLeast), static_cast<double>(StepOf(batch)), 1e4) << batch;
  }
}

TEST(ServiceForecast, BoundsBatchesThatItHasNotSeen) {
  ServiceForecast forecast;
  Learn(&forecast, 8, 1);
  EXPECT_NEAR(forecast.StepTime(64, ServiceForecast::Beyond::kAtMost), 8.0 * static_cast<double>(StepOf(8)), 1e4);
  EXPECT_NEAR(forecast.StepTime(64, kAtLeast), static_cast<double>(StepOf(8)), 1e3);
  EXPECT_LT(forecast.StepTime(2, kAtLeast), static_cast<double>(StepOf(2)));
}

TEST(ServiceForecast, NeverFallsWithTheBatch) {
  ServiceForecast forecast;
  forecast.LearnStep({.sequences = 4}, 50 * kMillisecond, 1);  // beside a long prompt
  Learn(&forecast, 16, 1);
  for (int32_t batch = 1; batch < 64; ++batch)
    EXPECT_LE(forecast.StepTime(batch, kAtLeast), forecast.StepTime(batch + 1, kAtLeast));
}

// 2 ms, 0.1 ms a sequence and 0.05 ms a prompt token, of which every third step has 8 for each sequence.
TEST(ServiceForecast, TellsPromptsFromOutputs) {
  ServiceForecast forecast;
  for (int i = 0; i < 1000; ++i) {
    const int32_t batch = 1 + i % 40;
    const int32_t prompt_tokens = i % 3 == 0 ? 8 * batch : 0;
    forecast.LearnStep({.sequences = batch, .prompt_tokens = prompt_tokens, .outputs = batch},
                       StepOf(batch) + prompt_tokens * kMillisecond / 20, 1);
  }
  for (const int32_t batch : {4, 20, 36}) {
    const double expected = static_cast<double>(StepOf(batch)) + batch * 8.0 / 3.0 / 20.0 * kMillisecond;
    EXPECT_NEAR(forecast.StepTime(batch, kAtLeast), expected, 0.05e6 * batch) << batch;
  }
  const double step = forecast.StepTime(20, kAtLeast);
  EXPECT_NEAR(forecast.ServiceTime({.outputs = 10, .prompt_tokens = 20}, step), 10 * step, 2e6);
  EXPECT_NEAR(forecast.ServiceTime({.outputs = 10, .prompt_tokens = 1020}, step), 10 * step + 50e6, 10e6);
  EXPECT_DOUBLE_EQ(forecast.ServiceTime({.outputs = 10, .caution = 3.0}, step), 30 * step);
}

TEST(ServiceForecast, FindsTheLargestBatchInTime) {
  ServiceForecast forecast;
  for (const int32_t batch : {1, 64}) Learn(&forecast, batch, 1);
  const ServiceForecast::Demand demand = {.outputs = 100};
  EXPECT_EQ(forecast.LargestBatch(demand, 100.0 * 1.001 * static_cast<double>(StepOf(20)), 64, kAtLeast), 20);
  EXPECT_EQ(forecast.LargestBatch(demand, 1e12, 64, kAtLeast), 64);
  EXPECT_EQ(forecast.LargestBatch(demand, 99.0 * static_cast<double>(StepOf(1)), 64, kAtLeast), 0);
}

TEST(ServiceForecast, ForgetsSizesThatItNoLongerSees) {
  ServiceForecast forecast;
  Learn(&forecast, 1, 1);
  Learn(&forecast, 8, ServiceForecast::kMemory);
  forecast.Forget(ServiceForecast::kMemory + 1);
  EXPECT_LT(forecast.StepTime(1, kAtLeast), 0.5 * static_cast<double>(StepOf(1))) << "a part of the step of 8";
  forecast.Forget(2 * ServiceForecast::kMemory);
  EXPECT_EQ(forecast.StepTime(8, kAtLeast), 0.0);
}

TEST(ServiceForecast, ExpectsAsManyTokensAsOutputsHave) {
  ServiceForecast forecast;
  for (int i = 0; i < 100; ++i) forecast.LearnEnd(EndOf(i % 2 == 0 ? 30 : 50), Stopping(512), 1);
  const int32_t outputs = forecast.OutputsOf(Stopping(512));
  EXPECT_GE(outputs, 35);
  EXPECT_LE(outputs, 45);
  EXPECT_EQ(forecast.OutputsOf(Stopping(10)), 10);
  EXPECT_EQ(forecast.OutputsOf(Stopping(512, 100)), 101);
  EXPECT_EQ(forecast.OutputsOf(Stopping(512, 0, true)), 512);
}

TEST(ServiceForecast, OutputsOfAFixedLengthSayNothingOfOthers) {
  ServiceForecast forecast;
  for (int i = 0; i < 10; ++i) forecast.LearnEnd(EndOf(500), Stopping(500, 0, true), 1);
  EXPECT_EQ(forecast.OutputsOf(Stopping(512)), 1);
}

TEST(ServiceForecast, AnOutputThatStopTokensMayEndHasNoFixedLength) {
  ServiceForecast forecast;
  StoppingParams with_token = Stopping(512, 0, true);
  with_token.stop_token_ids = {7};
  EXPECT_EQ(forecast.OutputsOf(with_token), 1);
  for (int i = 0; i < 10; ++i) forecast.LearnEnd(EndOf(300), Stopping(512), 1);
  EXPECT_EQ(forecast.OutputsOf(with_token), 1);
  for (int i = 0; i < 10; ++i) forecast.LearnEnd(EndOf(20), with_token, 1);
  EXPECT_EQ(forecast.OutputsOf(with_token), 20);
  EXPECT_EQ(forecast.OutputsOf(Stopping(512)), 300);
}

}  // namespace
}  // namespace dunlin::engine
