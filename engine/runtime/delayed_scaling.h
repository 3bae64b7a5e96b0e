// Delayed scaling: each FP8 input is quantised with a scale made from the largest magnitudes of earlier steps. The
// state is plain data and its update a pure function; the runtime gives it the amaxes that the kernels collect. Source:
// Transformer Engine, common/recipe/delayed_scaling.cu.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/fp8_recipe.h"

namespace dunlin::engine {

struct DelayedScalingState {
  int32_t num_inputs = 0;
  std::vector<float> history;  // [amax_history_len, num_inputs]; row 0 is the step that runs
  std::vector<float> scale;    // [num_inputs] code = round(value * scale); finite, > 0
};

// History 0, scale 1.
DelayedScalingState StartDelayedScaling(const Fp8Options& options, int32_t num_inputs);

// After a step whose amaxes stand in row 0. An input whose amax is 0 did not run and is left alone. Of the others the
// scale becomes 448 / amax / 2^margin, amax being the largest of the whole history ("max", NaN apart) or that of the
// step ("most_recent"); an amax of 0, infinity or NaN keeps the old scale, an overflow gives FLT_MAX. Then the history
// moves on by a row: so the scale has still seen the value that drops out.
void UpdateDelayedScaling(const Fp8Options& options, DelayedScalingState* state);

}  // namespace dunlin::engine
