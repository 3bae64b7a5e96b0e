// SPDX-License-Identifier: Apache-2.0
// The lanes type (lanes.h) of AVX-512 F, BW, VL and DQ. AVX-512 translation units only.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct Lanes {
  using Floats = __m512;
  using Ints = __m512i;
  using Mask = __mmask16;
  using Factor = Floats;  // a number that all lanes are multiplied with, in the form that Accumulate takes

  static constexpr int kNumVectors = 32;  // of sixteen lanes that the register file holds

  // The first min(left, 16) lanes; left > 0.
  DUNLIN_INLINE Mask FirstLanes(int64_t left) {
    return left >= simd::kLanes ? static_cast<Mask>(0xFFFF) : static_cast<Mask>((1U << left) - 1U);
  }

  DUNLIN_INLINE Floats Zero() { return _mm512_setzero_ps(); }
  DUNLIN_INLINE Floats Broadcast(float value) { return _mm512_set1_ps(value); }
  DUNLIN_INLINE Floats Iota(int start) {  // start, start + 1, ..., start + 15
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_set1_epi32(start), steps));
  }
  DUNLIN_INLINE Floats Load(const void* from) { return _mm512_loadu_ps(from); }
  DUNLIN_INLINE Floats LoadMasked(const float* from, Mask mask) { return _mm512_maskz_loadu_ps(mask, from); }
  DUNLIN_INLINE Floats LoadHalves(const float* low, const float* high) {  // 8 floats each, 32-byte aligned
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_load_ps(low)), _mm256_load_ps(high), 1);
  }
  DUNLIN_INLINE void Store(void* to, Floats x) { _mm512_storeu_ps(to, x); }
  DUNLIN_INLINE void StoreMasked(float* to, Mask mask, Floats x) { _mm512_mask_storeu_ps(to, mask, x); }

  DUNLIN_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  DUNLIN_INLINE Floats Sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  DUNLIN_INLINE Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  DUNLIN_INLINE Floats Div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  DUNLIN_INLINE Floats Min(Floats a, Floats b) { return _mm512_min_ps(a, b); }  // b where one is NaN; Max too
  DUNLIN_INLINE Floats Max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  DUNLIN_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }      // a * b + c
  DUNLIN_INLINE Floats NegMulAdd(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
  DUNLIN_INLINE Floats MulSub(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }      // a * b - c
  DUNLIN_INLINE Factor ToFactor(float value) { return Broadcast(value); }
  DUNLIN_INLINE Floats OfFactor(Factor factor) { return factor; }  // its value in every lane
  // sum + a * b, fused. Inline assembly, because GCC 12 picks the instruction forms that overwrite a or b, and then
  // spills accumulators in kernels that hold 24 of them.
  DUNLIN_INLINE Floats Accumulate(Floats sum, Factor a, Floats b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  // sum + *a * b with an embedded broadcast: one front-end slot instead of two.
  DUNLIN_INLINE Floats AccumulateBroadcast(Floats sum, const float* a, Floats b) {
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(b), "m"(*a));
    return sum;
  }
  DUNLIN_INLINE Floats Abs(Floats x) { return _mm512_abs_ps(x); }
  DUNLIN_INLINE Floats CopySign(Floats magnitude, Floats sign) {  // magnitude >= 0
    return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0F)));
  }
  DUNLIN_INLINE Floats RoundToInteger(Floats x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT); }
  // x * 2^n for whole n in [-152, 130] and x near 1, rounded once.
  DUNLIN_INLINE Floats TimesPowerOf2(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }
  DUNLIN_INLINE Mask Greater(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  DUNLIN_INLINE Mask NotLess(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }  // true for NaN
  DUNLIN_INLINE Mask Equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  DUNLIN_INLINE Mask ZeroBytes(const uint8_t* from, Mask mask) {  // which of 16 bytes are 0
    return _mm_testn_epi8_mask(_mm_maskz_loadu_epi8(mask, from), _mm_set1_epi8(-1));
  }
  DUNLIN_INLINE Floats Select(Mask mask, Floats a, Floats b) { return _mm512_mask_mov_ps(b, mask, a); }
  DUNLIN_INLINE Floats SelectOrZero(Mask mask, Floats x) { return _mm512_maskz_mov_ps(mask, x); }  // 0 elsewhere
  // The sum of all lanes, by halves.
  DUNLIN_INLINE float ReduceAdd(Floats lanes) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  DUNLIN_INLINE float ReduceMax(Floats x) { return _mm512_reduce_max_ps(x); }
  DUNLIN_INLINE float FirstLane(Floats x) { return _mm512_cvtss_f32(x); }

  DUNLIN_INLINE Ints AsInts(Floats x) { return _mm512_castps_si512(x); }
  DUNLIN_INLINE Floats AsFloats(Ints bits) { return _mm512_castsi512_ps(bits); }
  DUNLIN_INLINE Ints BroadcastInts(int value) { return _mm512_set1_epi32(value); }
  DUNLIN_INLINE Ints And(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  DUNLIN_INLINE Ints Or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  DUNLIN_INLINE Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  DUNLIN_INLINE Ints SubInts(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  DUNLIN_INLINE Ints MinInts(Ints a, Ints b) { return _mm512_min_epi32(a, b); }
  DUNLIN_INLINE Ints MaxInts(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight(Ints x) {
    return _mm512_srli_epi32(x, kBits);
  }
  DUNLIN_INLINE Mask GreaterInts(Ints a, Ints b) { return _mm512_cmpgt_epi32_mask(a, b); }
  DUNLIN_INLINE Ints SelectInts(Mask mask, Ints a, Ints b) { return _mm512_mask_mov_epi32(b, mask, a); }
  DUNLIN_INLINE int ReduceMaxInts(Ints x) { return _mm512_reduce_max_epi32(x); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft(Ints x) {
    return _mm512_slli_epi32(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned(Ints x) {
    return _mm512_srai_epi32(x, kBits);
  }
  DUNLIN_INLINE Floats ToFloats(Ints x) { return _mm512_cvtepi32_ps(x); }
  DUNLIN_INLINE Ints ToInts(Floats x) { return _mm512_cvtps_epi32(x); }  // to nearest even
  DUNLIN_INLINE Ints ToFp16Bits(Floats x) {  // FP16 bits, rounded to nearest even; any NaN for a NaN
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  DUNLIN_INLINE Ints LoadInts(const void* from) { return _mm512_loadu_si512(from); }
  DUNLIN_INLINE Ints LoadIntsMasked(const void* from, Mask mask) { return _mm512_maskz_loadu_epi32(mask, from); }
  DUNLIN_INLINE Ints LoadUint16(const uint16_t* from) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  // Sixteen signed bytes.
  DUNLIN_INLINE Ints LoadInt8(const void* from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  // The first (low half) and second BF16 of each pair, widened exactly.
  DUNLIN_INLINE Floats FirstOfPairs(Ints pairs) { return AsFloats(_mm512_slli_epi32(pairs, 16)); }
  DUNLIN_INLINE Floats SecondOfPairs(Ints pairs) { return AsFloats(And(pairs, BroadcastInts(~0xFFFF))); }
  // Sixteen FP16 or BF16 numbers, widened exactly.
  DUNLIN_INLINE Floats LoadFp16(const void* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  }
  DUNLIN_INLINE Floats LoadFp16Masked(const void* from, Mask mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from));
  }
  DUNLIN_INLINE Floats LoadBf16Masked(const void* from, Mask mask) {
    return AsFloats(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16));
  }
  // Sixteen E4M3 codes as their values times 2^-8, exactly: moved to where FP16 has exponent and fraction. The NaN code
  // becomes 480 * 2^-8.
  DUNLIN_INLINE Floats LoadE4M3Over256(const void* from) {
    return E4M3Over256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  DUNLIN_INLINE Floats LoadE4M3Over256Masked(const void* from, Mask mask) {
    return E4M3Over256(_mm_maskz_loadu_epi8(mask, from));
  }
  // The registers as bytes. Shuffle and unpack work inside each 128-bit part.
  using ByteMask = __mmask64;
  DUNLIN_INLINE Ints BroadcastBytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft16(Ints x) {  // of 16-bit words
    return _mm512_slli_epi16(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight16(Ints x) {
    return _mm512_srli_epi16(x, kBits);
  }
  DUNLIN_INLINE Ints ShuffleBytes(Ints table, Ints index) { return _mm512_shuffle_epi8(table, index); }
  DUNLIN_INLINE ByteMask LessBytes(Ints a, Ints b) { return _mm512_cmplt_epi8_mask(a, b); }  // signed
  DUNLIN_INLINE ByteMask EqualBytes(Ints a, Ints b) { return _mm512_cmpeq_epi8_mask(a, b); }
  DUNLIN_INLINE Ints SelectBytes(ByteMask mask, Ints a, Ints b) { return _mm512_mask_mov_epi8(b, mask, a); }
  DUNLIN_INLINE Ints OrAnd(Ints a, Ints b, Ints c) {  // a | (b & c)
    return _mm512_ternarylogic_epi32(a, b, c, 0xF0 | (0xCC & 0xAA));
  }
  DUNLIN_INLINE Ints XorAnd(Ints a, Ints b, Ints c) {  // a ^ (b & c)
    return _mm512_ternarylogic_epi32(a, b, c, 0xF0 ^ (0xCC & 0xAA));
  }
  // The 16-bit sums of the products of two bytes beside each other, saturated: unsigned times signed, or both signed.
  DUNLIN_INLINE Ints MulBytePairs(Ints a, Ints b) { return _mm512_maddubs_epi16(a, b); }
  DUNLIN_INLINE Ints MulSignedBytePairs(Ints a, Ints b) {
    const Ints with_sign = _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(a), _mm512_setzero_si512(), b);
    return _mm512_maddubs_epi16(_mm512_abs_epi8(a), with_sign);
  }
  // sum + x of 32-bit lanes, of 16-bit words. Inline assembly, because GCC 12 orders integer sums anew: it then keeps
  // all terms of several steps, on the stack.
  DUNLIN_INLINE Ints AccumulateInts(Ints sum, Ints x) {
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(x));
    return sum;
  }
  DUNLIN_INLINE Ints AccumulateWords(Ints sum, Ints x) {
    __asm__("vpaddw %1, %0, %0" : "+v"(sum) : "v"(x));
    return sum;
  }
  DUNLIN_INLINE Ints SumWordPairs(Ints x) { return _mm512_madd_epi16(x, _mm512_set1_epi16(1)); }
  // The low bytes of the lanes, byte i of lane order[i].
  DUNLIN_INLINE void StoreLow8InOrder(void* to, const uint8_t (&order)[16], Ints x) {
    const __m128i index = _mm_loadu_si128(reinterpret_cast<const __m128i*>(order));
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm_shuffle_epi8(_mm512_cvtepi32_epi8(x), index));
  }
  DUNLIN_INLINE Ints UnpackLowBytes(Ints a, Ints b) { return _mm512_unpacklo_epi8(a, b); }
  DUNLIN_INLINE Ints UnpackHighBytes(Ints a, Ints b) { return _mm512_unpackhi_epi8(a, b); }

  // Narrowed in a register first: AMD's narrowing stores under a mask take some hundred cycles.
  DUNLIN_INLINE void StoreLow16(uint16_t* to, Mask mask, Ints x) {
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(x));
  }
  DUNLIN_INLINE void StoreLow8(uint8_t* to, Mask mask, Ints x) {
    _mm_mask_storeu_epi8(to, mask, _mm512_cvtepi32_epi8(x));
  }

 private:
  DUNLIN_INLINE Floats E4M3Over256(__m128i codes) {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    return _mm512_cvtph_ps(_mm256_and_si256(moved, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF))));
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx512
