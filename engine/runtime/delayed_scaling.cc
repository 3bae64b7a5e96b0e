#include "engine/runtime/delayed_scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

// One input's column of the history.
class AmaxColumn {
 public:
  AmaxColumn(DelayedScalingState* state, int32_t input, int32_t length)
      : first_(state->history.data() + input), stride_(state->num_inputs), length_(length) {}

  float& at(int32_t row) const { return first_[int64_t{row} * stride_]; }

  float Largest() const {
    float largest = 0.0F;
    for (int32_t row = 0; row < length_; ++row) largest = std::fmax(largest, at(row));  // fmax passes over NaN
    return largest;
  }

  // Row 0 goes to the end and becomes 0; the oldest, row 1, drops out.
  void Roll() const {
    const float last = at(0);
    for (int32_t row = 0; row + 1 < length_; ++row) at(row) = at(row + 1);
    at(length_ - 1) = last;
    at(0) = 0.0F;
  }

 private:
  float* first_;
  int64_t stride_;
  int32_t length_;
};

float NextScale(float amax, float old_scale, int32_t margin) {
  if (!std::isfinite(amax) || amax <= 0.0F) return old_scale;
  const float scale = std::ldexp(kernels::kE4M3Max, -margin) / amax;
  return std::fmin(scale, std::numeric_limits<float>::max());
}

}  // namespace

DelayedScalingState StartDelayedScaling(const Fp8Options& options, int32_t num_inputs) {
  DelayedScalingState state;
  state.num_inputs = num_inputs;
  state.history.assign(static_cast<size_t>(options.amax_history_len) * static_cast<size_t>(num_inputs), 0.0F);
  state.scale.assign(static_cast<size_t>(num_inputs), 1.0F);
  return state;
}

void UpdateDelayedScaling(const Fp8Options& options, DelayedScalingState* state) {
  for (int32_t input = 0; input < state->num_inputs; ++input) {
    const AmaxColumn column(state, input, options.amax_history_len);
    const float last = column.at(0);
    if (last == 0.0F) continue;
    const float amax = options.amax_compute_algo == AmaxComputeAlgo::kMax ? column.Largest() : last;
    float& scale = state->scale[static_cast<size_t>(input)];
    scale = NextScale(amax, scale, options.margin);
    column.Roll();
  }
}

}  // namespace dunlin::engine
