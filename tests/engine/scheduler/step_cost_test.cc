// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

using Load = StepCost::Load;

// Nanoseconds of a device whose steps cost what the model assumes.
double DeviceTime(const Load& load) {
  return 5e6 + 2e5 * load.prompt_tokens + 20.0 * load.prompt_context + 3e5 * load.decodes + 10.0 * load.decode_context;
}

Load AnyLoad(simulation::Dice* dice) {
  Load load;
  if (dice->OneIn(2)) load.AddPrompt(dice->Between(0, 100000), dice->Between(1, 512));
  for (int32_t i = dice->Between(0, 32); i > 0; --i) load.AddDecode(dice->Between(1, 20000));
  return load;
}

TEST(StepCost, LearnsADeviceWithinAFewPercentFromMixedSteps) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    simulation::Dice dice(seed);
    StepCost cost;
    for (int step = 0; step < 300; ++step) {
      const Load load = AnyLoad(&dice);
      const double noise = 1.0 + 0.02 * (dice.Between(0, 2) - 1);
      cost.Learn(load, static_cast<TimeNs>(DeviceTime(load) * noise));
    }
    for (int i = 0; i < 50; ++i) {
      const Load load = AnyLoad(&dice);
      EXPECT_NEAR(cost.Predict(load) / DeviceTime(load), 1.0, 0.15) << seed;
    }
  }
}

TEST(StepCost, KnowsWhatAPromptCostsAfterManyStepsWithoutOne) {
  simulation::Dice dice(1);
  StepCost cost;
  for (int step = 0; step < 200; ++step) {
    const Load load = AnyLoad(&dice);
    cost.Learn(load, static_cast<TimeNs>(DeviceTime(load)));
  }
  for (int step = 0; step < 20000; ++step) {
    Load load;
    load.AddDecode(100 + step % 50);
    cost.Learn(load, static_cast<TimeNs>(DeviceTime(load)));
  }
  Load prompt;
  prompt.AddPrompt(50000, 256);
  EXPECT_NEAR(cost.Predict(prompt) / DeviceTime(prompt), 1.0, 0.15);
}

// What is left of a prompt's last tokens beside many decodes is noise, and often less than nothing.
TEST(StepCost, PromptsOfAFewTokensBesideDecodesDoNotHideWhatALongOneCosts) {
  simulation::Dice dice(1);
  StepCost cost;
  for (int step = 0; step < 300; ++step) {
    const Load load = AnyLoad(&dice);
    cost.Learn(load, static_cast<TimeNs>(DeviceTime(load)));
  }
  for (int step = 0; step < 40; ++step) {
    Load load;
    load.AddPrompt(500, 2);
    for (int i = 0; i < 32; ++i) load.AddDecode(1000);
    const double noise = 1.0 + 0.1 * (dice.Between(0, 2) - 1);
    cost.Learn(load, static_cast<TimeNs>(DeviceTime(load) * noise));
  }
  Load prompt;
  prompt.AddPrompt(1000, 512);
  EXPECT_NEAR(cost.PredictPrompt(prompt) / (DeviceTime(prompt) - DeviceTime({})), 1.0, 0.2);
}

TEST(StepCost, OneStepThatWasInterruptedChangesLittle) {
  simulation::Dice dice(1);
  StepCost cost;
  Load load;
  load.AddPrompt(1000, 128);
  for (int step = 0; step < 200; ++step) {
    const Load any = AnyLoad(&dice);
    cost.Learn(any, static_cast<TimeNs>(DeviceTime(any)));
  }
  cost.Learn(load, static_cast<TimeNs>(1000 * DeviceTime(load)));
  EXPECT_LT(cost.Predict(load), 1.5 * DeviceTime(load));
}

TEST(StepCost, FindsTheChunkThatTakesAGivenTime) {
  simulation::Dice dice(1);
  StepCost cost;
  for (int step = 0; step < 300; ++step) {
    const Load load = AnyLoad(&dice);
    cost.Learn(load, static_cast<TimeNs>(DeviceTime(load)));
  }
  for (const int32_t first : {0, 1000, 100000}) {
    for (const double time : {1e6, 1e8, 1e10}) {
      const int32_t tokens = cost.PromptTokensWithin(time, first, 512);
      Load fits;
      fits.AddPrompt(first, tokens);
      Load one_more;
      one_more.AddPrompt(first, tokens + 1);
      EXPECT_LE(cost.PredictPrompt(fits), time * 1.0001);
      if (tokens < 512) {
        EXPECT_GT(cost.PredictPrompt(one_more), time);
      }
    }
  }
  EXPECT_EQ(cost.PromptTokensWithin(-1.0, 0, 512), 0);
  EXPECT_EQ(StepCost().PromptTokensWithin(1.0, 100, 512), 512);  // nothing is known yet
}

}  // namespace
}  // namespace dunlin::engine
