// SPDX-License-Identifier: Apache-2.0
// The inputs of row operations: a source yields a row, a row yields values; PrefetchConstants reads nothing that other
// kernels write. Values are recomputed each time they are
// read, from cached memory rather than registers, so that any width fits.
#pragma once

#include <cmath>

#include "kernels/api/layer_ops.h"
#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

DUNLIN_HD inline Float4 LoadFour(const float* at) {
  return *reinterpret_cast<const Float4*>(at);
}

// Fetches the line of global memory that holds the address into L2.
DUNLIN_HD inline void PrefetchLine(const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#else
  (void)address;
#endif
}

// Calls visit(first, count, values) over the columns [begin, end) of a row, each visited by one lane: four at a time if
// `vector` (every pointer of the row is aligned and its width a multiple of 4), else one (count 1, values.values[0]).
// Not unrolled, because unrolled loops spill registers. begin: a multiple of 4.
template <typename Lanes, typename Row, typename Visit>
DUNLIN_HD void ForValuesIn(const Lanes& lanes, const Row& row, int64_t begin, int64_t end, bool vector,
                           const Visit& visit) {
  if (vector) {
    DUNLIN_NO_UNROLL
    for (int64_t i = begin + int64_t{lanes.index()} * 4; i < end; i += int64_t{lanes.count()} * 4) {
      visit(i, 4, row.Four(i));
    }
    return;
  }
  DUNLIN_NO_UNROLL
  for (int64_t i = begin + lanes.index(); i < end; i += lanes.count()) visit(i, 1, Float4{{row.One(i)}});
}

template <typename Lanes, typename Row, typename Visit>
DUNLIN_HD void ForEachValue(const Lanes& lanes, const Row& row, int64_t columns, bool vector, const Visit& visit) {
  ForValuesIn(lanes, row, 0, columns, vector, visit);
}

// The rows of QuantizeParams, or batches of them, one after another.
struct CopySource {
  const float* in;
  int64_t in_stride;
  int64_t columns;
  bool vector;
  const int32_t* rows = nullptr;  // as QuantizeParams
  int64_t batch_rows = 0;         // rows of a batch; 0: there is one batch
  int64_t batch_stride = 0;       // floats from a batch to the next

  struct Row {
    const float* in;
    DUNLIN_HD float One(int64_t i) const { return in[i]; }
    DUNLIN_HD Float4 Four(int64_t i) const { return LoadFour(in + i); }
  };
  template <typename Lanes>
  DUNLIN_HD void PrefetchConstants(const Lanes& /*lanes*/) const {}
  template <typename Lanes>
  DUNLIN_HD Row Begin(const Lanes& /*lanes*/, int64_t index) const {
    const int64_t row = rows == nullptr ? index : rows[index];
    // One sum, so that the compiler sees that the row is in global memory.
    const int64_t batch = batch_rows == 0 ? 0 : row / batch_rows;
    return {in + (batch * batch_stride + (row - batch * batch_rows) * in_stride)};
  }
};

// The rows of NormParams.
struct NormSource {
  NormKind kind;
  const float* in;
  const int32_t* rows;
  const float* weight;
  const float* bias;
  const float* residual;
  float epsilon;
  int64_t columns;
  bool vector;
  const float* factor = nullptr;  // as NormParams

  struct Row {
    const float* in;
    const float* weight;
    const float* bias;
    const float* residual;  // of this row
    float mean;
    float inv_std;
    float factor;  // of the sum with the residual

    DUNLIN_HD float Normed(float value, float scale, float shift) const {
      return (value - mean) * inv_std * scale + shift;
    }
    DUNLIN_HD float One(int64_t i) const {
      const float normed = Normed(in[i], weight[i], bias == nullptr ? 0.0F : bias[i]);
      return residual == nullptr ? normed : (residual[i] + normed) * factor;
    }
    DUNLIN_HD Float4 Four(int64_t i) const {
      Float4 values = LoadFour(in + i);
      const Float4 scales = LoadFour(weight + i);
      const Float4 shifts = bias == nullptr ? Float4{} : LoadFour(bias + i);
      for (int k = 0; k < 4; ++k) values.values[k] = Normed(values.values[k], scales.values[k], shifts.values[k]);
      if (residual == nullptr) return values;
      const Float4 terms = LoadFour(residual + i);
      for (int k = 0; k < 4; ++k) values.values[k] = (terms.values[k] + values.values[k]) * factor;
      return values;
    }
  };

  // Weights of other layers have taken the L2 since they were last read.
  template <typename Lanes>
  DUNLIN_HD void PrefetchConstants(const Lanes& lanes) const {
    constexpr int64_t kLineFloats = 32;
    for (int64_t i = lanes.index() * kLineFloats; i < columns; i += lanes.count() * kLineFloats) {
      PrefetchLine(weight + i);
      if (bias != nullptr) PrefetchLine(bias + i);
    }
  }

  // Mean, then the mean squared deviation: two sums, whose order depends only on the width and the number of lanes.
  template <typename Lanes>
  DUNLIN_HD Row Begin(const Lanes& lanes, int64_t index) const {
    const CopySource::Row values{in + (rows == nullptr ? index : rows[index]) * columns};
    const float count = static_cast<float>(columns);
    float mean = 0.0F;
    if (kind == NormKind::kLayerNorm) {
      float sum = 0.0F;
      ForEachValue(lanes, values, columns, vector, [&](int64_t, int n, const Float4& four) {
        for (int k = 0; k < n; ++k) sum += four.values[k];
      });
      mean = lanes.Sum(sum) / count;
    }
    float squares = 0.0F;
    ForEachValue(lanes, values, columns, vector, [&](int64_t, int n, const Float4& four) {
      for (int k = 0; k < n; ++k) squares += (four.values[k] - mean) * (four.values[k] - mean);
    });
    return {.in = values.in,
            .weight = weight,
            .bias = bias,
            .residual = residual == nullptr ? nullptr : residual + index * columns,
            .mean = mean,
            .inv_std = 1.0F / sqrtf(lanes.Sum(squares) / count + epsilon),
            .factor = factor == nullptr ? 1.0F : *factor};
  }
};

// ActivationKind's functions. x * sigmoid(2u) is 0.5 x (1 + tanh(u)) without its cancellation at negative x.
// Source: Hendrycks & Gimpel 2016 (GELU); Elfwing et al. 2017 (SiLU).
DUNLIN_HD inline float GeluTanh(float x) {
  constexpr float kTwoSqrt2OverPi = 1.5957691216F;
  return x / (1.0F + expf(-kTwoSqrt2OverPi * (x + 0.044715F * x * x * x)));
}

// NaN stays NaN.
DUNLIN_HD inline float Relu(float x) {
  return x < 0.0F ? 0.0F : x;
}

// NaN stays NaN.
DUNLIN_HD inline float ClampedSwish(float x) {
  const float clamped = x > kClampedSwishLimit ? kClampedSwishLimit : x;
  return clamped / (1.0F + expf(-kClampedSwishSlope * clamped));
}

DUNLIN_HD inline float ApplyActivation(ActivationKind kind, float x) {
  switch (kind) {
    case ActivationKind::kGeluTanh:
      return GeluTanh(x);
    case ActivationKind::kGeluErf:
      return 0.5F * x * erfcf(-x * 0.70710678F);
    case ActivationKind::kRelu:
      return Relu(x);
    case ActivationKind::kSilu:
      return x / (1.0F + expf(-x));
    case ActivationKind::kReluSquared:
      return Relu(x) * Relu(x);
    case ActivationKind::kClampedSwish:
      return ClampedSwish(x);
  }
  return x;
}

// What a gate's other half multiplies by.
DUNLIN_HD inline float GateFactor(ActivationKind kind, float up) {
  if (kind != ActivationKind::kClampedSwish) return up;
  const float below = up > kClampedSwishLimit ? kClampedSwishLimit : up;
  return (below < -kClampedSwishLimit ? -kClampedSwishLimit : below) + 1.0F;
}

// ActivateParams::curve's. NaN stays NaN.
DUNLIN_HD inline float Xielu(const float* curve, float x) {
  const float below = x > curve[3] ? curve[3] : x;
  const float term = x > 0.0F ? curve[0] * x * x : (expm1f(below) - x) * (curve[1] + curve[2]);
  return term + curve[2] * x;
}

// The rows of ActivateParams.
struct ActivateSource {
  ActivationKind kind;
  bool gated;
  const float* in;
  int64_t columns;
  bool vector;
  float limit = 0.0F;  // ActivateParams', as the next
  const float* curve = nullptr;

  struct Row {
    ActivationKind kind;
    float limit;
    const float* curve;
    const float* in;
    const float* factors;  // null: not gated
    // NaN stays NaN.
    DUNLIN_HD float Gated(float value, float factor) const {
      if (limit == 0.0F) return value * GateFactor(kind, factor);
      const float below = factor > limit ? limit : factor;
      return (value > limit ? limit : value) * (below < -limit ? -limit : below);
    }
    DUNLIN_HD float Of(float x) const { return curve == nullptr ? ApplyActivation(kind, x) : Xielu(curve, x); }
    DUNLIN_HD float One(int64_t i) const {
      const float value = Of(in[i]);
      return factors == nullptr ? value : Gated(value, factors[i]);
    }
    DUNLIN_HD Float4 Four(int64_t i) const {
      Float4 values = LoadFour(in + i);
      for (float& value : values.values) value = Of(value);
      if (factors == nullptr) return values;
      const Float4 gate = LoadFour(factors + i);
      for (int k = 0; k < 4; ++k) values.values[k] = Gated(values.values[k], gate.values[k]);
      return values;
    }
  };
  template <typename Lanes>
  DUNLIN_HD void PrefetchConstants(const Lanes& /*lanes*/) const {}
  template <typename Lanes>
  DUNLIN_HD Row Begin(const Lanes& /*lanes*/, int64_t index) const {
    const float* row = in + index * (gated ? 2 * columns : columns);
    return {kind, limit, curve, row, gated ? row + columns : nullptr};
  }
};

}  // namespace dunlin::kernels::cuda
