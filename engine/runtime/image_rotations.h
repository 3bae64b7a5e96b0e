// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of tokens of images, whose pairs of dimensions rotate by different positions: what the device's
// rotary table has no form for, computed on the host with the CPU device's rounding. Pure.
#pragma once

#include <cstdint>

#include "engine/model/spec/layer_specs.h"

namespace dunlin::engine {

// Rows of one image that a step computes.
struct ImageRows {
  int32_t columns = 0;         // of the image, >= 1
  int32_t first = 0;           // of the rows, in the image
  int32_t count = 0;           // >= 1
  int32_t first_position = 0;  // of the image's first token
};

// Writes RotaryTableParams::cos_sin of the rows, [count, rotary.dim]. Each cosine is computed once for a position and a
// pair of dimensions as long as the rows repeat it. REQUIRES: rotary has axes.
void FillImageRotations(const RotarySpec& rotary, const ImageRows& rows, float* cos_sin);

}  // namespace dunlin::engine
