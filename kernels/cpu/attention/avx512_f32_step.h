// One FP32 key or dimension a step: what the AVX-512 loaders share wherever P and Q are FP32. Included by the
// avx512_*.cc only; always inlined, so none of it leaves those files.
#pragma once

#include <immintrin.h>

#include <cstddef>

#define DUNLIN_STEP static inline __attribute__((always_inline))

namespace dunlin::kernels::cpu::avx512 {

struct F32Step {
  using P = float;
  using Vector = __m512;
  static constexpr int kKeys = 1;
  static constexpr int kParts = 1;
  DUNLIN_STEP __m512 Broadcast(const void* p) { return _mm512_set1_ps(*static_cast<const float*>(p)); }
  // sum + a * b, fused. As assembly, because GCC 12 takes the forms of the instruction that overwrite a or b, and then
  // spills accumulators in kernels that hold 24 of them.
  DUNLIN_STEP __m512 MultiplyAdd(__m512 sum, __m512 a, __m512 b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  DUNLIN_STEP __m512 FirstKey(__m512 values) { return values; }
  // A sum of products and a vector of values as they are: no scale per token.
  DUNLIN_STEP __m512 ScaleSum(const std::byte* const* /*blocks*/, int /*vector*/, int /*head_dim*/, __m512 sum) {
    return sum;
  }
  DUNLIN_STEP Vector ScaleValue(const std::byte* /*block*/, int64_t /*slot*/, int /*head_dim*/, Vector value) {
    return value;
  }
  DUNLIN_STEP __m512 LastKey(__m512 values) { return values; }
  DUNLIN_STEP void Store(float* p, __m512 e) { _mm512_storeu_ps(p, e); }
};

}  // namespace dunlin::kernels::cpu::avx512
