// SPDX-License-Identifier: Apache-2.0
// How the FP8 input of a GEMM is scaled.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

// The scale of an FP8 input; value = code * scale, code = round(value * (1 / scale)), saturated.
enum class InputScaling : uint8_t {
  kPerRow,   // amax / 448 of each row, or of each kScaleBlock of it: independent of the other rows
  kGiven,    // *shared_scale for all rows
  kCurrent,  // amax / 448 over all rows of the call, written to *shared_scale
};

}  // namespace dunlin::kernels
