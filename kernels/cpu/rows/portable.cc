// SPDX-License-Identifier: Apache-2.0
// Row kernels in plain C++ for any x86-64: the fallback, and the check on the vector code. Sums run in 16 lanes that
// are added pairwise at the end: one fixed order per length.
#include <bit>
#include <cmath>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/context/row_kernels.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kLanes = 16;

// Sum of (in - center)^power over the row; power 1 or 2.
template <int kPower>
float LaneSum(const float* in, int64_t n, float center) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; i += kLanes) {
    const int count = n - i < kLanes ? static_cast<int>(n - i) : kLanes;
    for (int lane = 0; lane < count; ++lane) {
      const float value = in[i + lane] - center;
      lanes[lane] += kPower == 1 ? value : value * value;
    }
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

constexpr float kSqrt2OverPi = 0.7978845608F;
constexpr float kGeluCubic = 0.044715F;

// x * sigmoid(2u) is 0.5 x (1 + tanh(u)) without its cancellation at negative x.
float GeluTanh(float x) {
  return x / (1.0F + std::exp(-2.0F * kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
}
float GeluErf(float x) {
  return 0.5F * x * std::erfc(-x * 0.70710678F);
}
float Relu(float x) {
  return x < 0.0F ? 0.0F : x;
}
float ReluSquared(float x) {
  return Relu(x) * Relu(x);
}
float Silu(float x) {
  return x / (1.0F + std::exp(-x));
}

template <float (*kFunction)(float)>
void ApplyRow(const float* in, const float* gated_by, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = kFunction(in[i]);
    out[i] = gated_by == nullptr ? value : value * gated_by[i];
  }
}

// A NaN stays NaN.
float ClampedSwish(float x) {
  const float clamped = x > kClampedSwishLimit ? kClampedSwishLimit : x;
  return clamped / (1.0F + std::exp(-kClampedSwishSlope * clamped));
}
void ClampedSwishRow(const float* in, const float* gated_by, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = ClampedSwish(in[i]);
    if (gated_by == nullptr) {
      out[i] = value;
      continue;
    }
    const float up = gated_by[i];
    const float below = up > kClampedSwishLimit ? kClampedSwishLimit : up;
    out[i] = value * ((below < -kClampedSwishLimit ? -kClampedSwishLimit : below) + 1.0F);
  }
}

NormMoments Moments(NormKind kind, const float* in, int64_t n, float epsilon) {
  const float count = static_cast<float>(n);
  const float mean = kind == NormKind::kLayerNorm ? LaneSum<1>(in, n, 0.0F) / count : 0.0F;
  const float mean_square = LaneSum<2>(in, n, mean) / count;
  return {mean, 1.0F / std::sqrt(mean_square + epsilon)};
}

void Normalize(const float* in, NormMoments moments, const float* weight, const float* bias, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = (in[i] - moments.mean) * moments.inv_std * weight[i];
    out[i] = bias == nullptr ? value : value + bias[i];
  }
}

void Activate(ActivationKind kind, const float* in, const float* gated_by, int64_t n, float* out) {
  switch (kind) {
    case ActivationKind::kGeluTanh:
      return ApplyRow<GeluTanh>(in, gated_by, n, out);
    case ActivationKind::kGeluErf:
      return ApplyRow<GeluErf>(in, gated_by, n, out);
    case ActivationKind::kRelu:
      return ApplyRow<Relu>(in, gated_by, n, out);
    case ActivationKind::kSilu:
      return ApplyRow<Silu>(in, gated_by, n, out);
    case ActivationKind::kReluSquared:
      return ApplyRow<ReluSquared>(in, gated_by, n, out);
    case ActivationKind::kClampedSwish:
      return ClampedSwishRow(in, gated_by, n, out);
  }
}

void Softcap(float cap, int64_t n, float* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = cap * std::tanh(values[i] / cap);
}

void SigmoidGate(const float* gate, int64_t n, float* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = values[i] / (1.0F + std::exp(-gate[i]));
}

void ScoreIndex(const IndexScores& args) {
  constexpr int kKeys = 16;
  float total[kKeys] = {};
  for (int32_t head = 0; head < args.num_heads; ++head) {
    float sums[kKeys] = {};
    for (int32_t d = 0; d < args.dim; ++d) {
      const float query = args.queries[int64_t{head} * args.dim + d];
      for (int s = 0; s < kKeys; ++s) sums[s] += query * args.keys[d * kKeys + s];
    }
    if (args.weights == nullptr) {
      for (int s = 0; s < kKeys; ++s) args.scores[head * kKeys + s] = sums[s];
      continue;
    }
    for (int s = 0; s < kKeys; ++s) total[s] += args.weights[head] * (sums[s] < 0.0F ? 0.0F : sums[s]);
  }
  for (int s = 0; s < kKeys && args.weights != nullptr; ++s) args.scores[s] = total[s];
}

uint32_t MaxMagnitudeBits(const float* in, int64_t n) {
  int32_t largest = 0;  // signed: without the sign bit both orders agree, and SSE2 compares signed only
  for (int64_t i = 0; i < n; ++i) {
    const int32_t magnitude = static_cast<int32_t>(std::bit_cast<uint32_t>(in[i]) & 0x7FFFFFFFU);
    largest = magnitude > largest ? magnitude : largest;
  }
  return static_cast<uint32_t>(largest);
}

void ToBf16(const float* in, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FloatToBf16(in[i]);
}
void ToFp16(const float* in, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FloatToFp16(in[i]);
}
void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FloatToE4M3(in[i] * factor);
}
void Bf16Row(const float* in, int64_t n, void* row) {
  auto* out = static_cast<float*>(row);
  for (int64_t i = 0; i < n; ++i) out[i] = Bf16ToFloat(FloatToBf16(in[i]));
}
void Fp8Row(const float* in, float factor, int64_t n, void* row) {
  auto* out = static_cast<float*>(row);
  for (int64_t i = 0; i < n; ++i) out[i] = E4M3ToFloat(FloatToE4M3(in[i] * factor));
}

}  // namespace

constinit const RowKernels kPortableRows = {.norm_moments = Moments,
                                            .normalize = Normalize,
                                            .activate = Activate,
                                            .softcap = Softcap,
                                            .sigmoid_gate = SigmoidGate,
                                            .index_scores = ScoreIndex,
                                            .max_magnitude_bits = MaxMagnitudeBits,
                                            .to_bf16 = ToBf16,
                                            .to_fp16 = ToFp16,
                                            .to_e4m3 = ToE4M3,
                                            .bf16_row_bytes = sizeof(float),
                                            .bf16_row = Bf16Row,
                                            .fp8_row = Fp8Row};

}  // namespace dunlin::kernels::cpu
