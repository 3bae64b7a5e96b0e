// Delayed scaling: each FP8 input is quantised with a scale made from the largest magnitudes of earlier steps. The
// state is plain data on the device, so that a step's amaxes never leave it; one function for every device, constexpr
// so that device code may call it. Source: Transformer Engine, common/recipe/delayed_scaling.cu.
#pragma once

#include <cstdint>
#include <limits>

namespace dunlin::kernels {

// Arrays in device memory. The start: history 0, factors and scales 1.
struct DelayedScalingParams {
  float* history;  // [history_len, num_inputs]; row 0 holds the amaxes of the step that has run
  float* factors;  // [num_inputs] code = round(value * factor); finite, > 0
  float* scales;   // [num_inputs] 1 / factor
  int32_t num_inputs;
  int32_t history_len;  // >= 1
  bool use_largest;     // the largest of the whole history ("max", NaN apart), or that of the step ("most_recent")
  float code_max;       // 448 / 2^margin: where an amax lands
};

// After a step. An input whose amax is 0 did not run and is left alone. Of the others the factor becomes
// code_max / amax; an amax of 0, infinity or NaN keeps the old one, an overflow gives FLT_MAX. Then the history moves
// on by a row: row 0 goes to the end and becomes 0, the oldest, row 1, drops out; so the factor has still seen it.
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
