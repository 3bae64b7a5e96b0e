// SPDX-License-Identifier: Apache-2.0
// The gates of what a recurrent layer, or attention with a gated output, computes: a norm of each group of a row, one
// call per group, and a sigmoid, one call per element.
#pragma once

#include "kernels/api/recurrent.h"
#include "kernels/cuda/ops/row_sources.h"

namespace dunlin::kernels::cuda {

// The values of a group that its norm is over.
struct GroupValues {
  const float* in;
  const float* gate;  // null: it comes after the norm

  DUNLIN_HD static float Gated(float value, float gate) { return value * ApplyActivation(ActivationKind::kSilu, gate); }
  DUNLIN_HD float One(int64_t i) const { return gate == nullptr ? in[i] : Gated(in[i], gate[i]); }
  DUNLIN_HD Float4 Four(int64_t i) const {
    Float4 values = LoadFour(in + i);
    if (gate == nullptr) return values;
    const Float4 gates = LoadFour(gate + i);
    for (int k = 0; k < 4; ++k) values.values[k] = Gated(values.values[k], gates.values[k]);
    return values;
  }
};

// Whether rows are read and written four columns at a time: every group is aligned to 16 bytes.
inline bool TakesFours(const GatedGroupNormParams& params) {
  const auto aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(Float4) == 0; };
  return params.columns % 4 == 0 && params.gate_stride % 4 == 0 && aligned(params.in) && aligned(params.gate) &&
         aligned(params.out);
}

// As GatedGroupNormParams, one group of output row `row`. vector: TakesFours. The sum's order depends only on the width
// and the number of lanes.
template <typename Lanes>
DUNLIN_HD void NormGroup(const Lanes& lanes, const GatedGroupNormParams& params, int64_t row, int64_t group,
                         bool vector) {
  const int64_t columns = params.columns;
  const int64_t width = params.num_groups * columns;
  const int64_t source = params.rows == nullptr ? row : params.rows[row];
  const float* gate = params.gate + (source * params.gate_stride + group * columns);
  const float* weight = params.weight + group * params.weight_stride;
  float* out = params.out + (row * width + group * columns);
  const GroupValues values{params.in + (source * width + group * columns), params.gate_first ? gate : nullptr};
  float squares = 0.0F;
  ForEachValue(lanes, values, columns, vector, [&](int64_t, int n, const Float4& four) {
    for (int k = 0; k < n; ++k) squares = fmaf(four.values[k], four.values[k], squares);
  });
  const float inv_std = 1.0F / sqrtf(lanes.Sum(squares) / static_cast<float>(columns) + params.epsilon);
  ForEachValue(lanes, values, columns, vector, [&](int64_t first, int n, const Float4& four) {
    Float4 normed{};
    for (int k = 0; k < n; ++k) {
      const float value = four.values[k] * inv_std * weight[first + k];
      normed.values[k] = params.gate_first     ? value
                         : params.sigmoid_gate ? value * (1.0F / (1.0F + expf(-gate[first + k])))
                                               : GroupValues::Gated(value, gate[first + k]);
    }
    if (n == 4) {
      *reinterpret_cast<Float4*>(out + first) = normed;
    } else {
      out[first] = normed.values[0];
    }
  });
}

// As RowGateParams, one element.
DUNLIN_HD inline void GateAt(const RowGateParams& params, int64_t row, int64_t column) {
  const int64_t source = params.rows == nullptr ? row : params.rows[row];
  const float gate = params.gate[source * (params.columns / params.width) + column / params.width];
  params.values[row * params.columns + column] *= 1.0F / (1.0F + expf(-gate));
}

}  // namespace dunlin::kernels::cuda
