// The vector policy (kernels/cpu/vector/lanes.h) of AVX-512. AVX-512 translation units only.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/vector/lanes.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct Lanes {
  using Floats = __m512;
  using Ints = __m512i;
  using Mask = __mmask16;

  // 8 x 3 sums, 3 weights and a broadcast fit 32 registers. Rows of several tiles are shared out evenly: at least 4.
  static constexpr int kTileRows = 8;
  static constexpr int kTileRowsMin = 4;
  static constexpr int kTileVectors = 3;
  static constexpr int kNarrowRows = 8;        // whole panels at once, decoded in registers; 4 of FP8
  static constexpr bool kDecodesWhole = true;  // all vectors of a unit, then its products, if registers feed them
  static constexpr bool kAsksL2 = false;

  // The lanes that exist when `left` > 0 elements remain.
  DUNLIN_LANE Mask MaskOf(int64_t left) {
    return left >= vector::kLanes ? static_cast<Mask>(0xFFFF) : static_cast<Mask>((1U << left) - 1U);
  }

  DUNLIN_LANE Floats Zero() { return _mm512_setzero_ps(); }
  DUNLIN_LANE Floats All(float value) { return _mm512_set1_ps(value); }
  DUNLIN_LANE Floats Load(const void* from) { return _mm512_loadu_ps(from); }
  DUNLIN_LANE Floats LoadPart(const float* from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
  DUNLIN_LANE void Store(void* to, Floats x) { _mm512_storeu_ps(to, x); }
  DUNLIN_LANE void StorePart(float* to, Mask mask, Floats x) { _mm512_mask_storeu_ps(to, mask, x); }

  DUNLIN_LANE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  DUNLIN_LANE Floats Sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  DUNLIN_LANE Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  DUNLIN_LANE Floats Div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  DUNLIN_LANE Floats Min(Floats a, Floats b) { return _mm512_min_ps(a, b); }  // b where one is NaN; Max too
  DUNLIN_LANE Floats Max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  DUNLIN_LANE Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }      // a * b + c
  DUNLIN_LANE Floats NegMulAdd(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
  DUNLIN_LANE Floats Abs(Floats x) { return _mm512_abs_ps(x); }
  DUNLIN_LANE Floats RoundToWhole(Floats x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT); }
  // x * 2^n for whole n in [-152, 130] and x near 1, rounded once.
  DUNLIN_LANE Floats TimesPowerOf2(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }
  DUNLIN_LANE Mask Greater(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  DUNLIN_LANE Floats Select(Mask mask, Floats a, Floats b) { return _mm512_mask_mov_ps(b, mask, a); }
  DUNLIN_LANE Floats Keep(Mask mask, Floats x) { return _mm512_maskz_mov_ps(mask, x); }  // 0 elsewhere
  // The sum of all lanes, by halves.
  DUNLIN_LANE float AddLanes(Floats lanes) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  DUNLIN_LANE Ints Bits(Floats x) { return _mm512_castps_si512(x); }
  DUNLIN_LANE Floats FloatsOf(Ints bits) { return _mm512_castsi512_ps(bits); }
  DUNLIN_LANE Ints AllInts(int value) { return _mm512_set1_epi32(value); }
  DUNLIN_LANE Ints And(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  DUNLIN_LANE Ints Or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  DUNLIN_LANE Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  DUNLIN_LANE Ints SubInts(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  DUNLIN_LANE Ints MinInts(Ints a, Ints b) { return _mm512_min_epi32(a, b); }
  DUNLIN_LANE Ints MaxInts(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  template <int kBits>
  DUNLIN_LANE Ints ShiftRight(Ints x) {
    return _mm512_srli_epi32(x, kBits);
  }
  DUNLIN_LANE Mask GreaterInts(Ints a, Ints b) { return _mm512_cmpgt_epi32_mask(a, b); }
  DUNLIN_LANE Ints SelectInts(Mask mask, Ints a, Ints b) { return _mm512_mask_mov_epi32(b, mask, a); }
  DUNLIN_LANE int LargestLane(Ints x) { return _mm512_reduce_max_epi32(x); }
  DUNLIN_LANE Ints ToInts(Floats x) { return _mm512_cvtps_epi32(x); }  // to nearest even
  DUNLIN_LANE Ints ToHalves(Floats x) {  // FP16 bits, rounded to nearest even; any NaN for a NaN
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  // Narrowed in a register first: AMD's narrowing stores under a mask take some hundred cycles.
  DUNLIN_LANE void StoreLow16(uint16_t* to, Mask mask, Ints x) {
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(x));
  }
  DUNLIN_LANE void StoreLow8(uint8_t* to, Mask mask, Ints x) {
    _mm_mask_storeu_epi8(to, mask, _mm512_cvtepi32_epi8(x));
  }
};

// The same where requests of memory for L2 are taken when those for L1 wait (AsksL2Freely).
struct L2Lanes : Lanes {
  static constexpr bool kAsksL2 = true;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx512
