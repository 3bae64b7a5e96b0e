// Row operations, sixteen lanes at a time. A sum runs in 16 lanes that are added in one fixed tree at the end.
#include "kernels/cpu/avx512/exp.h"
#include "kernels/cpu/avx512/kernels.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

DUNLIN_LANE __m512 All(float value) {
  return _mm512_set1_ps(value);
}

DUNLIN_LANE float AddLanes(__m512 lanes) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

struct GeluTanh {
  // x * sigmoid(2u) is 0.5 x (1 + tanh(u)) without its cancellation at negative x; u = sqrt(2/pi) (x + 0.044715 x^3).
  DUNLIN_LANE __m512 Of(__m512 x) {
    const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(All(0.044715F), x), _mm512_mul_ps(x, x), x);
    return _mm512_div_ps(x, _mm512_add_ps(All(1.0F), Exp(_mm512_mul_ps(All(-2.0F * 0.7978845608F), cubic))));
  }
};

struct GeluErf {
  // 0.5 x erfc(-x / sqrt 2), with erfc(z) = t exp(-z^2 + poly(t)), t = 1 / (1 + z / 2), z >= 0, relative error 1.2e-7.
  // Source: Press et al., Numerical Recipes, section 6.2 (erfcc).
  DUNLIN_LANE __m512 Of(__m512 x) {
    const __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), All(0.70710678F));
    const __m512 t = _mm512_div_ps(All(1.0F), _mm512_fmadd_ps(z, All(0.5F), All(1.0F)));
    constexpr float kCoefficients[] = {-0.82215223F, 1.48851587F, -1.13520398F, 0.27886807F, -0.18628806F,
                                       0.09678418F,  0.37409196F, 1.00002368F,  -1.26551223F};
    __m512 poly = All(0.17087277F);
#pragma GCC unroll 9
    for (int i = 0; i < 9; ++i) poly = _mm512_fmadd_ps(poly, t, All(kCoefficients[i]));
    const __m512 tail = _mm512_mul_ps(t, Exp(_mm512_fnmadd_ps(z, z, poly)));  // erfc(|x| / sqrt 2)
    const __mmask16 positive = _mm512_cmp_ps_mask(x, All(0.0F), _CMP_GT_OQ);
    const __m512 erfc = _mm512_mask_sub_ps(tail, positive, All(2.0F), tail);
    return _mm512_mul_ps(_mm512_mul_ps(All(0.5F), x), erfc);
  }
};

struct Relu {
  DUNLIN_LANE __m512 Of(__m512 x) { return _mm512_max_ps(All(0.0F), x); }  // a NaN lane returns x
};

struct Silu {
  DUNLIN_LANE __m512 Of(__m512 x) {
    return _mm512_div_ps(x, _mm512_add_ps(All(1.0F), Exp(_mm512_sub_ps(All(0.0F), x))));
  }
};

template <typename Function>
void ApplyRow(const float* in, const float* gated_by, int64_t n, float* out) {
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    __m512 value = Function::Of(_mm512_maskz_loadu_ps(mask, in + i));
    if (gated_by != nullptr) value = _mm512_mul_ps(value, _mm512_maskz_loadu_ps(mask, gated_by + i));
    _mm512_mask_storeu_ps(out + i, mask, value);
  });
}

}  // namespace

NormMoments Moments(NormKind kind, const float* in, int64_t n, float epsilon) {
  const float count = static_cast<float>(n);
  float mean = 0.0F;
  if (kind == NormKind::kLayerNorm) {
    __m512 sum = All(0.0F);
    ForEachVector(n, [&](int64_t i, __mmask16 mask) { sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, in + i)); });
    mean = AddLanes(sum) / count;
  }
  __m512 squares = All(0.0F);
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512 centred = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, in + i), All(mean));
    squares = _mm512_fmadd_ps(centred, centred, squares);
  });
  return {mean, 1.0F / __builtin_sqrtf(AddLanes(squares) / count + epsilon)};
}

void Normalize(const float* in, NormMoments moments, const float* weight, const float* bias, int64_t n, float* out) {
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512 centred = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, in + i), All(moments.mean));
    __m512 value = _mm512_mul_ps(_mm512_mul_ps(centred, All(moments.inv_std)), _mm512_maskz_loadu_ps(mask, weight + i));
    if (bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, bias + i));
    _mm512_mask_storeu_ps(out + i, mask, value);
  });
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
  }
}

// tanh(u) = 1 - 2 / (exp(2u) + 1).
void Softcap(float cap, int64_t n, float* values) {
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    const __m512 u = _mm512_div_ps(_mm512_maskz_loadu_ps(mask, values + i), All(cap));
    const __m512 exp_plus_1 = _mm512_add_ps(Exp(_mm512_add_ps(u, u)), All(1.0F));
    const __m512 tanh = _mm512_sub_ps(All(1.0F), _mm512_div_ps(All(2.0F), exp_plus_1));
    _mm512_mask_storeu_ps(values + i, mask, _mm512_mul_ps(All(cap), tanh));
  });
}

uint32_t MaxMagnitudeBits(const float* in, int64_t n) {
  __m512i largest = _mm512_setzero_si512();
  ForEachVector(n, [&](int64_t i, __mmask16 mask) {
    largest = _mm512_max_epi32(largest, Magnitude(_mm512_maskz_loadu_ps(mask, in + i)));
  });
  return static_cast<uint32_t>(_mm512_reduce_max_epi32(largest));
}

}  // namespace dunlin::kernels::cpu::avx512
