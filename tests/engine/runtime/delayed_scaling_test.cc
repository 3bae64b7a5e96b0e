// Delayed scaling over scripted sequences, against a transcription of the published formula
// (tests/golden/fp8/make_delayed_scaling.py).
#include "engine/runtime/delayed_scaling.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "nlohmann/json.hpp"

namespace dunlin::engine {
namespace {

using Json = nlohmann::json;

float FromBits(const Json& bits) {
  return std::bit_cast<float>(bits.get<uint32_t>());
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
    Fp8Options options;
    options.amax_history_len = entry["amax_history_len"].get<int32_t>();
    options.margin = entry["margin"].get<int32_t>();
    if (entry["amax_compute_algo"] == "most_recent") options.amax_compute_algo = AmaxComputeAlgo::kMostRecent;
    const std::string name = entry["amax_compute_algo"].get<std::string>() + " of " +
                             std::to_string(options.amax_history_len) + ", margin " + std::to_string(options.margin);
    // The scripted input stands between one that never runs and one that always does.
    DelayedScalingState state = StartDelayedScaling(options, 3);
    int step = 0;
    for (const Json& row : entry["steps"]) {
      state.history[1] = FromBits(row[0]);
      state.history[2] = 2.0F;
      UpdateDelayedScaling(options, &state);
      const std::string what = name + ", step " + std::to_string(step++);
      ExpectSame(state.scale[1], FromBits(row[1]), what);
      float sum = 0.0F;
      for (size_t i = 1; i < static_cast<size_t>(options.amax_history_len); ++i) sum += state.history[i * 3 + 1];
      ExpectSame(sum, FromBits(row[2]), what + ", history");
      EXPECT_EQ(state.scale[0], 1.0F);
      EXPECT_EQ(state.scale[2], std::ldexp(224.0F, -options.margin));
      ++num_steps;
    }
    for (size_t i = 0; i < entry["history"].size(); ++i) {
      ExpectSame(state.history[i * 3 + 1], FromBits(entry["history"][i]), name + ", end, row " + std::to_string(i));
      EXPECT_EQ(state.history[i * 3], 0.0F);
    }
  }
  EXPECT_GT(num_steps, 1000);
}

TEST(DelayedScaling, TheScaleHasSeenTheValueThatDropsOut) {
  Fp8Options options;
  options.amax_history_len = 3;
  DelayedScalingState state = StartDelayedScaling(options, 1);
  std::vector<float> scales;
  for (const float amax : {56.0F, 7.0F, 7.0F, 7.0F, 7.0F}) {
    state.history[0] = amax;
    UpdateDelayedScaling(options, &state);
    scales.push_back(state.scale[0]);
  }
  // Three values count, the running one among them; the fourth step has lost the first.
  EXPECT_EQ(scales, (std::vector<float>{8.0F, 8.0F, 8.0F, 64.0F, 64.0F}));
}

TEST(DelayedScaling, AnInputThatDidNotRunKeepsItsHistory) {
  const Fp8Options options;
  DelayedScalingState state = StartDelayedScaling(options, 1);
  state.history[0] = 14.0F;
  UpdateDelayedScaling(options, &state);
  const DelayedScalingState before = state;
  for (int i = 0; i < 40; ++i) UpdateDelayedScaling(options, &state);
  EXPECT_EQ(state.history, before.history);
  EXPECT_EQ(state.scale[0], 32.0F);
}

}  // namespace
}  // namespace dunlin::engine
