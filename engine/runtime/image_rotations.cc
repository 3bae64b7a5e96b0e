// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/image_rotations.h"

#include <cmath>
#include <cstddef>

namespace dunlin::engine {
namespace {

// How many rows before a row is one that has its position on the axis, too.
struct AxisOfRow {
  int32_t position;
  int32_t same_before;  // 0: none among the rows
};

AxisOfRow PlaceOf(const ImageRows& rows, int32_t row, RotationAxis axis) {
  const int32_t in_image = rows.first + row;
  switch (axis) {
    case RotationAxis::kSequence:
      return {rows.first_position, row > 0 ? 1 : 0};
    case RotationAxis::kRow:
      return {rows.first_position + in_image / rows.columns, row > 0 && in_image % rows.columns != 0 ? 1 : 0};
    case RotationAxis::kColumn:
      return {rows.first_position + in_image % rows.columns, row >= rows.columns ? rows.columns : 0};
  }
  return {};
}

}  // namespace

void FillImageRotations(const RotarySpec& rotary, const ImageRows& rows, float* cos_sin) {
  const int32_t half = rotary.dim / 2;
  const float factor = rotary.attention_factor(0);
  for (int32_t row = 0; row < rows.count; ++row) {
    float* const out = cos_sin + int64_t{row} * rotary.dim;
    for (int32_t pair = 0; pair < half; ++pair) {
      const auto at = static_cast<size_t>(pair);
      const AxisOfRow place = PlaceOf(rows, row, rotary.axes[at]);
      if (place.same_before > 0) {
        const float* const same = out - int64_t{place.same_before} * rotary.dim;
        out[pair] = same[pair];
        out[half + pair] = same[half + pair];
        continue;
      }
      const double angle = static_cast<float>(place.position) * rotary.inv_freq[at];  // rounded to FP32 first
      out[pair] = static_cast<float>(std::cos(angle)) * factor;
      out[half + pair] = static_cast<float>(std::sin(angle)) * factor;
    }
  }
}

}  // namespace dunlin::engine
