// Sixteen floats at a time by AVX-512 F, BW, VL and DQ with FMA and F16C: what the vector_*.h are written over.
// Included by the avx512_*.cc only; always inlined, so none of it leaves those files.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/attention/wide.h"

#define DUNLIN_INLINE static inline __attribute__((always_inline))

namespace dunlin::kernels::cpu::avx512 {

struct Lanes {
  using Floats = __m512;
  using Words = __m512i;
  using Mask = __mmask16;
  using Tail = __mmask16;  // which elements of a row's last vector exist

  // Rows and vectors of the kernels that read pages: 6 x 4 accumulators of 32 registers, and 8 x 2 for a group of eight
  // heads, whose keys are then decoded once and asked from memory over the whole time that they take; and of those that
  // read a widened tile: 12 x 2, which load a vector for twice as many products.
  static constexpr int kVectorsOfRows[8] = {4, 4, 4, 4, 4, 4, 0, 2};
  static constexpr bool kTakesEightRows = true;
  // The same for the values of a page: 24 sums too, so that few rows read 128 dimensions of it in one run. Three rows
  // load a value twice for it, which nothing that waits for memory feels.
  static consteval int VectorsOfValues(int rows, bool /*as_stored*/) {
    return rows <= 3 ? 8 : kVectorsOfRows[rows - 1];
  }
  static constexpr int kWideRows = 12;
  static constexpr int kWideVectors = 2;
  static constexpr bool kBroadcastsInside = true;
  static constexpr bool kAsksL2 = false;
  static constexpr int64_t kBlockBytes = int64_t{704} << 10;  // servers' cores have 1 MB and more

  // The kernels over widened tiles.
  struct Wide {
    DUNLIN_INLINE void Scores(const ScoreArgs& args, int panel, int depth, const float* scales,
                              const PanelSource& following) {
      WideScores(args, panel, depth, scales, following);
    }
    DUNLIN_INLINE void Values(const ValueArgs& args, int panel, const PanelSource& following) {
      WideValues(args, panel, following);
    }
  };

  // The first `count` > 0 lanes, all for 16 and more.
  DUNLIN_INLINE Mask First(int count) {
    return count >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1U << count) - 1U);
  }
  DUNLIN_INLINE Tail TailOf(int count) { return First(count); }

  DUNLIN_INLINE Floats Zero() { return _mm512_setzero_ps(); }
  DUNLIN_INLINE Floats Set(float value) { return _mm512_set1_ps(value); }
  DUNLIN_INLINE Floats Counting(int start) {
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_set1_epi32(start), steps));
  }
  DUNLIN_INLINE Floats Load(const float* p) { return _mm512_load_ps(p); }  // 64-byte aligned
  DUNLIN_INLINE Floats LoadAny(const float* p) { return _mm512_loadu_ps(p); }
  DUNLIN_INLINE Floats LoadFirst(const float* p, Tail tail) { return _mm512_maskz_loadu_ps(tail, p); }
  DUNLIN_INLINE Floats LoadTwoHalves(const float* low, const float* high) {  // 8 floats each, 32-byte aligned
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_load_ps(low)), _mm256_load_ps(high), 1);
  }
  DUNLIN_INLINE void Store(float* p, Floats v) { _mm512_store_ps(p, v); }
  DUNLIN_INLINE void StoreAny(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  DUNLIN_INLINE void StoreFirst(float* p, Floats v, Tail tail) { _mm512_mask_storeu_ps(p, tail, v); }

  DUNLIN_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  DUNLIN_INLINE Floats Subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  DUNLIN_INLINE Floats Multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  DUNLIN_INLINE Floats Divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  DUNLIN_INLINE Floats Max(Floats a, Floats b) { return _mm512_max_ps(a, b); }  // b where one is NaN
  DUNLIN_INLINE Floats Min(Floats a, Floats b) { return _mm512_min_ps(a, b); }  // b where one is NaN
  DUNLIN_INLINE Floats Fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  DUNLIN_INLINE Floats FmaSubtract(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
  // sum + a * b, fused. As assembly, because GCC 12 takes the forms of the instruction that overwrite a or b, and then
  // spills accumulators in kernels that hold 24 of them.
  DUNLIN_INLINE Floats MultiplyAdd(Floats sum, Floats a, Floats b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  // sum + *a * b with the broadcast inside the instruction: one slot of the front end for two.
  DUNLIN_INLINE Floats MultiplyAddOf(Floats sum, const float* a, Floats b) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(b), "m"(*a));
    return sum;
  }
  DUNLIN_INLINE Floats Magnitude(Floats a) { return _mm512_abs_ps(a); }
  DUNLIN_INLINE Floats WithSign(Floats magnitude, Floats sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0F)));
  }
  DUNLIN_INLINE Floats Round(Floats a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // y * 2^whole, whole an integer >= -126 or NaN.
  DUNLIN_INLINE Floats TimesPowerOfTwo(Floats y, Floats whole) { return _mm512_scalef_ps(y, whole); }
  DUNLIN_INLINE float Sum(Floats a) { return _mm512_reduce_add_ps(a); }
  DUNLIN_INLINE float Largest(Floats a) { return _mm512_reduce_max_ps(a); }
  DUNLIN_INLINE float Lane0(Floats a) { return _mm512_cvtss_f32(a); }

  DUNLIN_INLINE Mask Less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  DUNLIN_INLINE Mask NotLess(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }  // NaN too
  DUNLIN_INLINE Mask Equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  DUNLIN_INLINE Mask ZeroBytes(const uint8_t* p, Tail tail) {
    return _mm_testn_epi8_mask(_mm_maskz_loadu_epi8(tail, p), _mm_set1_epi8(-1));
  }
  DUNLIN_INLINE Floats Choose(Mask mask, Floats yes, Floats no) { return _mm512_mask_mov_ps(no, mask, yes); }
  DUNLIN_INLINE Floats OrZero(Mask mask, Floats yes) { return _mm512_maskz_mov_ps(mask, yes); }

  // FP16 and BF16 bits, and E4M3 codes, to floats, exactly (a code times 2^-8: vector_loaders.h).
  DUNLIN_INLINE Floats WidenHalves(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  DUNLIN_INLINE Floats WidenFirstHalves(const void* p, Tail tail) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(tail, p));
  }
  DUNLIN_INLINE Floats WidenFirstBf16(const void* p, Tail tail) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(tail, p)), 16));
  }
  DUNLIN_INLINE Floats WidenCodes(const void* p) { return WidenCodes(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
  DUNLIN_INLINE Floats WidenFirstCodes(const void* p, Tail tail) { return WidenCodes(_mm_maskz_loadu_epi8(tail, p)); }
  DUNLIN_INLINE Words LoadWords(const void* p) { return _mm512_loadu_si512(p); }
  DUNLIN_INLINE Words LoadFirstWords(const void* p, Tail tail) { return _mm512_maskz_loadu_epi32(tail, p); }
  // A BF16 pair's first, in the low half, and second.
  DUNLIN_INLINE Floats WidenLow(Words pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
  DUNLIN_INLINE Floats WidenHigh(Words pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }

  // BF16 bits in the high halves, rounded to nearest even, denormals kept: FloatToBf16 of float_formats.h. (The
  // instruction vcvtneps2bf16 makes denormals zero.)
  DUNLIN_INLINE Floats RoundToBf16(Floats value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_castsi512_ps(_mm512_and_si512(quiet, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
  DUNLIN_INLINE void StoreFirstBf16(void* p, Floats rounded, Tail tail) {
    _mm256_mask_storeu_epi16(p, tail, _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(rounded), 16)));
  }
  DUNLIN_INLINE void StoreFirstHalves(void* p, Floats value, Tail tail) {
    _mm256_mask_storeu_epi16(p, tail, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

 private:
  DUNLIN_INLINE Floats WidenCodes(__m128i codes) {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    return _mm512_cvtph_ps(_mm256_and_si256(moved, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF))));
  }
};

// The same where requests of memory for L2 are taken when those for L1 wait (AsksL2Freely).
struct L2Lanes : Lanes {
  static constexpr bool kAsksL2 = true;
};

}  // namespace dunlin::kernels::cpu::avx512
