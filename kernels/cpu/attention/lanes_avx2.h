// Sixteen floats at a time as two vectors of 8, by AVX2 with FMA and F16C: what the vector_*.h are written over.
// Included by the avx2_*.cc only; always inlined, so none of it leaves those files.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/attention/wide.h"

#define DUNLIN_INLINE static inline __attribute__((always_inline))

namespace dunlin::kernels::cpu::avx2 {

struct Lanes {
  struct Floats {
    __m256 low;
    __m256 high;
  };
  struct Words {
    __m256i low;
    __m256i high;
  };
  using Mask = Floats;  // all bits of a lane or none
  using Tail = int;     // how many elements of a row's last vector exist, at least 1; 16 and more: all

  // 12 of 16 registers hold sums, 6 rows of 16 columns at most: one vector and one broadcast more are in use.
  static constexpr int kVectorsOfRows[6] = {2, 2, 1, 1, 1, 1};
  static constexpr bool kTakesEightRows = false;
  // The same for the values of a page, more of which few rows read in one run: one row needs a value once, two and
  // three load one again, which pays where values are multiplied as they are stored (FP32).
  static consteval int VectorsOfValues(int rows, bool as_stored) {
    if (rows == 1) return 4;
    return as_stored && rows <= 3 ? 5 - rows : kVectorsOfRows[rows - 1];
  }
  static constexpr bool kAsksL2 = false;
  static constexpr int kWideRows = 6;
  static constexpr int kWideVectors = 1;
  static constexpr bool kBroadcastsInside = false;
  static constexpr int64_t kBlockBytes = 0;  // many such processors have 256 KB

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

  DUNLIN_INLINE Mask First(int count) {
    return {_mm256_castsi256_ps(FirstOfEight(count)), _mm256_castsi256_ps(FirstOfEight(count - 8))};
  }
  DUNLIN_INLINE Tail TailOf(int count) { return count; }

  DUNLIN_INLINE Floats Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  DUNLIN_INLINE Floats Set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  DUNLIN_INLINE Floats Counting(int start) {
    const __m256i low = _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(_mm256_add_epi32(low, _mm256_set1_epi32(8)))};
  }
  DUNLIN_INLINE Floats Load(const float* p) { return {_mm256_load_ps(p), _mm256_load_ps(p + 8)}; }
  DUNLIN_INLINE Floats LoadAny(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  DUNLIN_INLINE Floats LoadFirst(const float* p, Tail tail) {
    if (tail >= 16) return LoadAny(p);
    return {_mm256_maskload_ps(p, FirstOfEight(tail)), _mm256_maskload_ps(p + 8, FirstOfEight(tail - 8))};
  }
  DUNLIN_INLINE Floats LoadTwoHalves(const float* low, const float* high) {  // 8 floats each, 32-byte aligned
    return {_mm256_load_ps(low), _mm256_load_ps(high)};
  }
  DUNLIN_INLINE void Store(float* p, Floats v) {
    _mm256_store_ps(p, v.low);
    _mm256_store_ps(p + 8, v.high);
  }
  DUNLIN_INLINE void StoreAny(float* p, Floats v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  DUNLIN_INLINE void StoreFirst(float* p, Floats v, Tail tail) {
    if (tail >= 16) return StoreAny(p, v);
    _mm256_maskstore_ps(p, FirstOfEight(tail), v.low);
    _mm256_maskstore_ps(p + 8, FirstOfEight(tail - 8), v.high);
  }

  DUNLIN_INLINE Floats Add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats Subtract(Floats a, Floats b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  DUNLIN_INLINE Floats Multiply(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  DUNLIN_INLINE Floats Divide(Floats a, Floats b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  DUNLIN_INLINE Floats Max(Floats a, Floats b) {  // b where one is NaN
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  DUNLIN_INLINE Floats Min(Floats a, Floats b) {  // b where one is NaN
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  DUNLIN_INLINE Floats Fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Floats FmaSubtract(Floats a, Floats b, Floats c) {
    return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
  }
  // sum + a * b, fused. As assembly, because GCC 12 takes the forms of the instruction that overwrite a or b, and then
  // spills accumulators.
  DUNLIN_INLINE Floats MultiplyAdd(Floats sum, Floats a, Floats b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum.low) : "x"(a.low), "x"(b.low));
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum.high) : "x"(a.high), "x"(b.high));
    return sum;
  }
  DUNLIN_INLINE Floats Magnitude(Floats a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
  }
  DUNLIN_INLINE Floats WithSign(Floats magnitude, Floats sign) {
    const __m256 bit = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(magnitude.low, _mm256_and_ps(sign.low, bit)),
            _mm256_or_ps(magnitude.high, _mm256_and_ps(sign.high, bit))};
  }
  DUNLIN_INLINE Floats Round(Floats a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
  }
  // y * 2^whole, whole an integer in -126..127, or y NaN.
  DUNLIN_INLINE Floats TimesPowerOfTwo(Floats y, Floats whole) {
    return Multiply(y, {PowerOfTwo(whole.low), PowerOfTwo(whole.high)});
  }
  DUNLIN_INLINE float Sum(Floats a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  DUNLIN_INLINE float Largest(Floats a) {
    const __m256 eight = _mm256_max_ps(a.low, a.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  DUNLIN_INLINE float Lane0(Floats a) { return _mm256_cvtss_f32(a.low); }

  DUNLIN_INLINE Mask Less(Floats a, Floats b) {
    return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
  }
  DUNLIN_INLINE Mask NotLess(Floats a, Floats b) {  // NaN too
    return {_mm256_cmp_ps(a.low, b.low, _CMP_NLT_UQ), _mm256_cmp_ps(a.high, b.high, _CMP_NLT_UQ)};
  }
  DUNLIN_INLINE Mask Equal(Floats a, Floats b) {
    return {_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)};
  }
  DUNLIN_INLINE Mask ZeroBytes(const uint8_t* p, Tail tail) {
    const __m128i bytes = LoadFirstBytes(p, tail);
    const __m128i zero = _mm_cmpeq_epi8(bytes, _mm_setzero_si128());
    return {_mm256_castsi256_ps(_mm256_cvtepi8_epi32(zero)),
            _mm256_castsi256_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(zero, 8)))};
  }
  DUNLIN_INLINE Floats Choose(Mask mask, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high)};
  }
  DUNLIN_INLINE Floats OrZero(Mask mask, Floats yes) {
    return {_mm256_and_ps(mask.low, yes.low), _mm256_and_ps(mask.high, yes.high)};
  }

  // FP16 and BF16 bits, and E4M3 codes, to floats, exactly (a code times 2^-8: vector_loaders.h).
  DUNLIN_INLINE Floats WidenHalves(const void* p) {
    const auto* halves = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  DUNLIN_INLINE Floats WidenFirstHalves(const void* p, Tail tail) {
    if (tail >= 16) return WidenHalves(p);
    const Sixteen<uint16_t> halves(p, tail);
    return WidenHalves(halves.elements);
  }
  DUNLIN_INLINE Floats WidenFirstBf16(const void* p, Tail tail) {
    if (tail >= 16) return WidenBf16(p);
    const Sixteen<uint16_t> halves(p, tail);
    return WidenBf16(halves.elements);
  }
  DUNLIN_INLINE Floats WidenCodes(const void* p) { return WidenCodes(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
  DUNLIN_INLINE Floats WidenFirstCodes(const void* p, Tail tail) { return WidenCodes(LoadFirstBytes(p, tail)); }
  DUNLIN_INLINE Words LoadWords(const void* p) {
    const auto* words = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
  }
  DUNLIN_INLINE Words LoadFirstWords(const void* p, Tail tail) {
    if (tail >= 16) return LoadWords(p);
    const auto* words = static_cast<const int*>(p);
    return {_mm256_maskload_epi32(words, FirstOfEight(tail)), _mm256_maskload_epi32(words + 8, FirstOfEight(tail - 8))};
  }
  // A BF16 pair's first, in the low half, and second.
  DUNLIN_INLINE Floats WidenLow(Words pairs) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs.low, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(pairs.high, 16))};
  }
  DUNLIN_INLINE Floats WidenHigh(Words pairs) {
    const __m256i half = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm256_castsi256_ps(_mm256_and_si256(pairs.low, half)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs.high, half))};
  }

  // BF16 bits in the high halves, rounded to nearest even, denormals kept: FloatToBf16 of float_formats.h.
  DUNLIN_INLINE Floats RoundToBf16(Floats value) { return {RoundEight(value.low), RoundEight(value.high)}; }
  DUNLIN_INLINE void StoreFirstBf16(void* p, Floats rounded, Tail tail) {
    const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(rounded.low), 16);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(rounded.high), 16);
    StoreFirst16(p, _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8), tail);
  }
  DUNLIN_INLINE void StoreFirstHalves(void* p, Floats value, Tail tail) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    const __m128i low = _mm256_cvtps_ph(value.low, kNearest);
    StoreFirst16(p, _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm256_cvtps_ph(value.high, kNearest), 1),
                 tail);
  }

 private:
  // A copy of a row's last elements, zeros behind them: AVX2 has no masked loads of bytes and halves.
  template <typename Element>
  struct Sixteen {
    __attribute__((always_inline)) Sixteen(const void* p, Tail tail) {
      for (int i = 0; i < tail; ++i) elements[i] = static_cast<const Element*>(p)[i];
    }
    Element elements[16] = {};
  };

  DUNLIN_INLINE __m256i FirstOfEight(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  DUNLIN_INLINE __m128i LoadFirstBytes(const void* p, Tail tail) {
    if (tail >= 16) return _mm_loadu_si128(static_cast<const __m128i*>(p));
    const Sixteen<uint8_t> bytes(p, tail);
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.elements));
  }
  DUNLIN_INLINE void StoreFirst16(void* p, __m256i elements, Tail tail) {
    if (tail >= 16) return _mm256_storeu_si256(static_cast<__m256i*>(p), elements);
    uint16_t all[16];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(all), elements);
    for (int i = 0; i < tail; ++i) static_cast<uint16_t*>(p)[i] = all[i];
  }
  DUNLIN_INLINE Floats WidenBf16(const void* p) {
    const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return WidenLow({_mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves)),
                     _mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves, 1))});
  }
  DUNLIN_INLINE Floats WidenCodes(__m128i codes) {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    const __m256i halves = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  }
  DUNLIN_INLINE __m256 PowerOfTwo(__m256 whole) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  DUNLIN_INLINE __m256 RoundEight(__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm256_castsi256_ps(_mm256_and_si256(chosen, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U))));
  }
};

}  // namespace dunlin::kernels::cpu::avx2
