// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/group_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

constexpr int kScalesTried = 20;
constexpr float kSmallestShare = 0.5F;

// The smallest scale: above zero, and in FP16 with 5 bits left. Codes are rounded with the scale as it is stored.
float SmallestScale(kernels::DType dtype) {
  return dtype == kernels::DType::kF16 ? 0x1p-20F : 0x1p-100F;
}

float Stored(const CodeLayout& layout, float scale) {
  const float bounded = std::clamp(scale, SmallestScale(layout.scale_dtype), 65504.0F);
  switch (layout.scale_dtype) {
    case kernels::DType::kF16:
      return kernels::Fp16ToFloat(kernels::FloatToFp16(bounded));
    case kernels::DType::kBF16:
      return kernels::Bf16ToFloat(kernels::FloatToBf16(bounded));
    default:
      return bounded;
  }
}

double SquaredError(const CodeLayout& layout, std::span<const float> values, float scale) {
  double sum = 0.0;
  for (const float value : values) {
    const float error = value - scale * static_cast<float>(CodeOf(layout, value, scale));
    sum += static_cast<double>(error) * static_cast<double>(error);
  }
  return sum;
}

}  // namespace

CodedMatrix EmptyCodes(const CodeLayout& layout, int64_t rows, int64_t columns) {
  CodedMatrix matrix{.rows = rows, .columns = columns, .layout = layout, .codes = {}, .scales = {}};
  matrix.codes.resize(static_cast<size_t>(rows * columns));
  matrix.scales.resize(static_cast<size_t>(rows * matrix.num_groups()));
  return matrix;
}

float ScaleOfGroup(const CodeLayout& layout, std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const float reach = static_cast<float>((1 << (layout.bits - 1)) - 1);
  if (layout.bits == 8) return Stored(layout, largest / reach);
  float best = 0.0F;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kScalesTried; ++i) {
    const float share = 1.0F - (1.0F - kSmallestShare) * static_cast<float>(i) / kScalesTried;
    const float scale = Stored(layout, largest * share / reach);
    const double error = SquaredError(layout, values, scale);
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

int8_t CodeOf(const CodeLayout& layout, float value, float scale) {
  const float limit = static_cast<float>(1 << (layout.bits - 1));
  return static_cast<int8_t>(std::clamp(std::nearbyint(value / scale), -limit, limit - 1.0F));
}

CodedMatrix RoundToNearest(const CodeLayout& layout, const float* values, int64_t rows, int64_t columns) {
  CodedMatrix matrix = EmptyCodes(layout, rows, columns);
  const auto group = static_cast<size_t>(layout.group);
  for (size_t g = 0; g < matrix.scales.size(); ++g) {
    const std::span<const float> in(values + g * group, group);
    const float scale = matrix.scales[g] = ScaleOfGroup(layout, in);
    for (size_t i = 0; i < group; ++i) matrix.codes[g * group + i] = CodeOf(layout, in[i], scale);
  }
  return matrix;
}

}  // namespace dunlin::engine
