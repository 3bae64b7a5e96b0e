// SPDX-License-Identifier: Apache-2.0
// Delayed scaling over scripted sequences, against a transcription of the published formula
// (tests/golden/fp8/make_delayed_scaling.py).
#include "kernels/api/delayed_scaling.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include "kernels/api/float_formats.h"
#include "nlohmann/json.hpp"

namespace dunlin::kernels {
namespace {

using Json = nlohmann::json;

float FromBits(const Json& bits) {
  return std::bit_cast<float>(bits.get<uint32_t>());
}

struct Options {
  int32_t history_len = 16;
  int32_t margin = 0;
  bool use_largest = true;
};

struct State {
  State(const Options& options, int32_t num_inputs)
      : history(static_cast<size_t>(options.history_len * num_inputs)),
        factors(static_cast<size_t>(num_inputs), 1.0F),
        scales(factors) {}
  std::vector<float> history;
  std::vector<float> factors;
  std::vector<float> scales;
};

void Update(const Options& options, State* state) {
  const auto num_inputs = static_cast<int32_t>(state->factors.size());
  const DelayedScalingParams params{.history = state->history.data(),
                                    .factors = state->factors.data(),
                                    .scales = state->scales.data(),
                                    .num_inputs = num_inputs,
                                    .history_len = options.history_len,
                                    .use_largest = options.use_largest,
                                    .code_max = std::ldexp(kE4M3Max, -options.margin)};
  for (int32_t input = 0; input < num_inputs; ++input) UpdateDelayedInput(params, input);
  for (size_t i = 0; i < state->scales.size(); ++i) EXPECT_EQ(state->scales[i], 1.0F / state->factors[i]);
}

// Equal bits, or both NaN.
void ExpectSame(float got, float expected, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected))
        << what << ": " << got << ", expected " << expected;
  }
}

TEST(DelayedScaling, FollowsThePublishedFormulaStepByStep) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/fp8/delayed_scaling.json");
  const Json golden = Json::parse(file);
  int num_steps = 0;
  for (const Json& entry : golden["cases"]) {
    Options options;
    options.history_len = entry["amax_history_len"].get<int32_t>();
    options.margin = entry["margin"].get<int32_t>();
    if (entry["amax_compute_algo"] == "most_recent") options.use_largest = false;
    const std::string name = entry["amax_compute_algo"].get<std::string>() + " of " +
                             std::to_string(options.history_len) + ", margin " + std::to_string(options.margin);
    // The scripted input is between one that never runs and one that always runs.
    State state(options, 3);
    int step = 0;
    for (const Json& row : entry["steps"]) {
      state.history[1] = FromBits(row[0]);
      state.history[2] = 2.0F;
      Update(options, &state);
      const std::string what = name + ", step " + std::to_string(step++);
      ExpectSame(state.factors[1], FromBits(row[1]), what);
      float sum = 0.0F;
      for (size_t i = 1; i < static_cast<size_t>(options.history_len); ++i) sum += state.history[i * 3 + 1];
      ExpectSame(sum, FromBits(row[2]), what + ", history");
      EXPECT_EQ(state.factors[0], 1.0F);
      EXPECT_EQ(state.factors[2], std::ldexp(224.0F, -options.margin));
      ++num_steps;
    }
    for (size_t i = 0; i < entry["history"].size(); ++i) {
      ExpectSame(state.history[i * 3 + 1], FromBits(entry["history"][i]), name + ", end, row " + std::to_string(i));
      EXPECT_EQ(state.history[i * 3], 0.0F);
    }
  }
  EXPECT_GT(num_steps, 1000);
}

TEST(DelayedScaling, ADroppedValueCountsForOneMoreScale) {
  Options options;
  options.history_len = 3;
  State state(options, 1);
  std::vector<float> factors;
  for (const float amax : {56.0F, 7.0F, 7.0F, 7.0F, 7.0F}) {
    state.history[0] = amax;
    Update(options, &state);
    factors.push_back(state.factors[0]);
  }
  // The maximum covers three steps, the current one included; the fourth step no longer sees the first.
  EXPECT_EQ(factors, (std::vector<float>{8.0F, 8.0F, 8.0F, 64.0F, 64.0F}));
}

TEST(DelayedScaling, AnInputThatDidNotRunKeepsItsHistory) {
  const Options options;
  State state(options, 1);
  state.history[0] = 14.0F;
  Update(options, &state);
  const State before = state;
  for (int i = 0; i < 40; ++i) Update(options, &state);
  EXPECT_EQ(state.history, before.history);
  EXPECT_EQ(state.factors[0], 32.0F);
}

}  // namespace
}  // namespace dunlin::kernels
