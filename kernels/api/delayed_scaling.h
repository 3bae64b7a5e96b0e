// SPDX-License-Identifier: Apache-2.0
// Delayed scaling: each FP8 input is quantised with a scale computed from the largest magnitudes (amaxes) of earlier
// steps. The state is plain data in device memory, so amaxes never travel to the host. One function for every device,
// constexpr so that device code may call it. Source: Transformer Engine, common/recipe/delayed_scaling.cu.
#pragma once

#include <cstdint>
#include <limits>

namespace dunlin::kernels {

// Arrays in device memory. Initially the history is 0, factors and scales are 1.
struct DelayedScalingParams {
  float* history;  // [history_len, num_inputs]; row 0 holds the amaxes of the last step
  float* factors;  // [num_inputs] code = round(value * factor); finite, > 0
  float* scales;   // [num_inputs] 1 / factor
  int32_t num_inputs;
  int32_t history_len;  // >= 1
  bool use_largest;     // the maximum of the history, ignoring NaN ("max"), or the last step's amax ("most_recent")
  float code_max;       // 448 / 2^margin: the code that an amax maps to
};

// Updates one input after a step. An input whose amax of the step is 0 did not run and is left alone. For the others
// the factor becomes code_max / amax; an amax of 0, infinity or NaN keeps the old factor, an overflow gives FLT_MAX.
// Then the history shifts by a row: row 0 moves to the end and becomes 0, and the oldest, row 1, drops out, having
// counted once more.
constexpr void UpdateDelayedInput(const DelayedScalingParams& params, int32_t input) {
  const int64_t stride = params.num_inputs;
  float* column = params.history + input;
  const float last = column[0];
  if (last == 0.0F) return;
  float amax = last;
  if (params.use_largest) {
    amax = 0.0F;
    for (int32_t row = 0; row < params.history_len; ++row) {
      if (column[row * stride] > amax) amax = column[row * stride];
    }
  }
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (amax > 0.0F && amax <= kLargest) {
    const float factor = params.code_max / amax;
    params.factors[input] = factor < kLargest ? factor : kLargest;
    params.scales[input] = 1.0F / params.factors[input];
  }
  for (int32_t row = 0; row + 1 < params.history_len; ++row) column[row * stride] = column[(row + 1) * stride];
  column[(params.history_len - 1) * stride] = last;
  column[0] = 0.0F;
}

}  // namespace dunlin::kernels
