// SPDX-License-Identifier: Apache-2.0
// Scales of E4M3 tensors. Source: Transformer Engine, common/recipe (compute_scale_from_amax, delayed_scaling).
#pragma once

#include <cmath>
#include <limits>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels {

// The factor of current scaling, code = round(value * factor) and value = code / factor: 448 / amax, FLT_MAX where that
// overflows, 1 for an amax of 0, infinity or NaN.
inline float FactorFromAmax(float amax) {
  if (!std::isfinite(amax) || amax == 0.0F) return 1.0F;
  return std::fmin(kE4M3Max / amax, std::numeric_limits<float>::max());
}

}  // namespace dunlin::kernels
