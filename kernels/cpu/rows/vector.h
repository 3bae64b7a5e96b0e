// SPDX-License-Identifier: Apache-2.0
// The row kernels (row_kernels.h) of the vector variants, sixteen lanes at a time. A sum runs in 16 lanes that are
// added in one fixed tree at the end.
#pragma once

#include "kernels/cpu/context/row_kernels.h"
#include "kernels/cpu/simd/exp.h"
#include "kernels/cpu/simd/rounding.h"

namespace dunlin::kernels::cpu::simd {

template <typename V>
struct Rows {
  using Floats = typename V::Floats;
  using Ints = typename V::Ints;
  using Mask = typename V::Mask;

  struct GeluTanh {
    // x * sigmoid(2u) is 0.5 x (1 + tanh(u)) without its cancellation at negative x; u = sqrt(2/pi) (x + 0.044715 x^3).
    DUNLIN_INLINE Floats Of(Floats x) {
      const Floats cubic = V::MulAdd(V::Mul(V::Broadcast(0.044715F), x), V::Mul(x, x), x);
      return V::Div(x, V::Add(V::Broadcast(1.0F), Exp<V>(V::Mul(V::Broadcast(-2.0F * 0.7978845608F), cubic))));
    }
  };

  struct GeluErf {
    // 0.5 x erfc(-x / sqrt 2), with erfc(z) = t exp(-z^2 + poly(t)), t = 1 / (1 + z / 2), z >= 0, relative error
    // 1.2e-7. Source: Press et al., Numerical Recipes, section 6.2 (erfcc).
    DUNLIN_INLINE Floats Of(Floats x) {
      const Floats z = V::Mul(V::Abs(x), V::Broadcast(0.70710678F));
      const Floats t = V::Div(V::Broadcast(1.0F), V::MulAdd(z, V::Broadcast(0.5F), V::Broadcast(1.0F)));
      constexpr float kCoefficients[] = {-0.82215223F, 1.48851587F, -1.13520398F, 0.27886807F, -0.18628806F,
                                         0.09678418F,  0.37409196F, 1.00002368F,  -1.26551223F};
      Floats poly = V::Broadcast(0.17087277F);
#pragma GCC unroll 9
      for (int i = 0; i < 9; ++i) poly = V::MulAdd(poly, t, V::Broadcast(kCoefficients[i]));
      const Floats tail = V::Mul(t, Exp<V>(V::NegMulAdd(z, z, poly)));  // erfc(|x| / sqrt 2)
      const Floats erfc = V::Select(V::Greater(x, V::Broadcast(0.0F)), V::Sub(V::Broadcast(2.0F), tail), tail);
      return V::Mul(V::Mul(V::Broadcast(0.5F), x), erfc);
    }
  };

  struct Relu {
    DUNLIN_INLINE Floats Of(Floats x) { return V::Max(V::Broadcast(0.0F), x); }  // a NaN lane returns x
  };

  struct ReluSquared {
    DUNLIN_INLINE Floats Of(Floats x) {
      const Floats positive = Relu::Of(x);
      return V::Mul(positive, positive);
    }
  };

  struct Silu {
    DUNLIN_INLINE Floats Of(Floats x) {
      return V::Div(x, V::Add(V::Broadcast(1.0F), Exp<V>(V::Sub(V::Broadcast(0.0F), x))));
    }
  };

  // V::Min and V::Max return their second argument where one is NaN: a NaN stays NaN.
  static void ClampedSwishRow(const float* in, const float* gated_by, int64_t n, float* out) {
    const Floats limit = V::Broadcast(kClampedSwishLimit);
    const Floats negative_limit = V::Broadcast(-kClampedSwishLimit);
    const Floats one = V::Broadcast(1.0F);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats clamped = V::Min(limit, V::LoadMasked(in + i, mask));
      const Floats exponential = Exp<V>(V::Mul(V::Broadcast(-kClampedSwishSlope), clamped));
      Floats value = V::Div(clamped, V::Add(one, exponential));
      if (gated_by != nullptr) {
        const Floats up = V::Max(negative_limit, V::Min(limit, V::LoadMasked(gated_by + i, mask)));
        value = V::Mul(value, V::Add(up, one));
      }
      V::StoreMasked(out + i, mask, value);
    });
  }

  template <typename Function>
  static void ApplyRow(const float* in, const float* gated_by, int64_t n, float* out) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      Floats value = Function::Of(V::LoadMasked(in + i, mask));
      if (gated_by != nullptr) value = V::Mul(value, V::LoadMasked(gated_by + i, mask));
      V::StoreMasked(out + i, mask, value);
    });
  }

  static NormMoments Moments(NormKind kind, const float* in, int64_t n, float epsilon) {
    const float count = static_cast<float>(n);
    float mean = 0.0F;
    if (kind == NormKind::kLayerNorm) {
      Floats sum = V::Broadcast(0.0F);
      ForEachVector<V>(n, [&](int64_t i, const Mask& mask) { sum = V::Add(sum, V::LoadMasked(in + i, mask)); });
      mean = V::ReduceAdd(sum) / count;
    }
    Floats squares = V::Broadcast(0.0F);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats centred = V::SelectOrZero(mask, V::Sub(V::LoadMasked(in + i, mask), V::Broadcast(mean)));
      squares = V::MulAdd(centred, centred, squares);
    });
    return {mean, 1.0F / __builtin_sqrtf(V::ReduceAdd(squares) / count + epsilon)};
  }

  static void Normalize(const float* in, NormMoments moments, const float* weight, const float* bias, int64_t n,
                        float* out) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats centred = V::Sub(V::LoadMasked(in + i, mask), V::Broadcast(moments.mean));
      Floats value = V::Mul(V::Mul(centred, V::Broadcast(moments.inv_std)), V::LoadMasked(weight + i, mask));
      if (bias != nullptr) value = V::Add(value, V::LoadMasked(bias + i, mask));
      V::StoreMasked(out + i, mask, value);
    });
  }

  static void Activate(ActivationKind kind, const float* in, const float* gated_by, int64_t n, float* out) {
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

  // tanh(u) = 1 - 2 / (exp(2u) + 1).
  static void Softcap(float cap, int64_t n, float* values) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats u = V::Div(V::LoadMasked(values + i, mask), V::Broadcast(cap));
      const Floats exp_plus_1 = V::Add(Exp<V>(V::Add(u, u)), V::Broadcast(1.0F));
      const Floats tanh = V::Sub(V::Broadcast(1.0F), V::Div(V::Broadcast(2.0F), exp_plus_1));
      V::StoreMasked(values + i, mask, V::Mul(V::Broadcast(cap), tanh));
    });
  }

  static void SigmoidGate(const float* gate, int64_t n, float* values) {
    const Floats one = V::Broadcast(1.0F);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats exponential = Exp<V>(V::Sub(V::Broadcast(0.0F), V::LoadMasked(gate + i, mask)));
      V::StoreMasked(values + i, mask, V::Div(V::LoadMasked(values + i, mask), V::Add(one, exponential)));
    });
  }

  // Four heads at once, so that four independent sums hide an addition's latency.
  static void ScoreIndex(const IndexScores& args) {
    constexpr int kHeads = 4;
    Floats total = V::Zero();
    int32_t head = 0;
    for (; head + kHeads <= args.num_heads; head += kHeads) ScoreHeads<kHeads>(args, head, &total);
    for (; head < args.num_heads; ++head) ScoreHeads<1>(args, head, &total);
    if (args.weights != nullptr) V::Store(args.scores, total);
  }

  template <int kHeads>
  DUNLIN_INLINE void ScoreHeads(const IndexScores& args, int32_t head, Floats* total) {
    const float* query = args.queries + int64_t{head} * args.dim;
    Floats sums[kHeads];
    for (Floats& sum : sums) sum = V::Zero();
    for (int32_t d = 0; d < args.dim; ++d) {
      const Floats key = V::Load(args.keys + d * kLanes);
      for (int h = 0; h < kHeads; ++h) sums[h] = V::MulAdd(V::Broadcast(query[h * args.dim + d]), key, sums[h]);
    }
    for (int h = 0; h < kHeads; ++h) {
      if (args.weights == nullptr) {
        V::Store(args.scores + (head + h) * kLanes, sums[h]);
        continue;
      }
      *total = V::MulAdd(V::Broadcast(args.weights[head + h]), V::Max(V::Zero(), sums[h]), *total);
    }
  }

  static uint32_t MaxMagnitudeBits(const float* in, int64_t n) {
    Ints largest = V::BroadcastInts(0);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      largest = V::MaxInts(largest, Magnitude<V>(V::LoadMasked(in + i, mask)));
    });
    return static_cast<uint32_t>(V::ReduceMaxInts(largest));
  }
};

// bf16_rows: whether bf16 and fp8 activation rows hold BF16, not floats.
template <typename V>
constexpr RowKernels RowKernelsOf(bool bf16_rows) {
  return {.norm_moments = Rows<V>::Moments,
          .normalize = Rows<V>::Normalize,
          .activate = Rows<V>::Activate,
          .softcap = Rows<V>::Softcap,
          .sigmoid_gate = Rows<V>::SigmoidGate,
          .index_scores = Rows<V>::ScoreIndex,
          .max_magnitude_bits = Rows<V>::MaxMagnitudeBits,
          .to_bf16 = Rounding<V>::ToBf16,
          .to_fp16 = Rounding<V>::ToFp16,
          .to_e4m3 = Rounding<V>::ToE4M3,
          .bf16_row_bytes = bf16_rows ? sizeof(uint16_t) : sizeof(float),
          .bf16_row = bf16_rows ? Rounding<V>::Bf16RowOfBf16 : Rounding<V>::Bf16RowOfFloats,
          .fp8_row = bf16_rows ? Rounding<V>::Fp8RowOfBf16 : Rounding<V>::Fp8RowOfFloats};
}

}  // namespace dunlin::kernels::cpu::simd
