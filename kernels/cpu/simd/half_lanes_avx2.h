// SPDX-License-Identifier: Apache-2.0
// Eight lanes in one register of AVX2: half a vector of avx2::Lanes, with those of its functions (lanes.h) that decode
// weights. For code that has few registers left. AVX2 translation units only.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

struct HalfLanes {
  using Floats = __m256;
  using Ints = __m256i;
  using ByteMask = __m256i;
  using Factor = Floats;

  DUNLIN_INLINE Floats Load(const void* from) { return _mm256_loadu_ps(static_cast<const float*>(from)); }
  DUNLIN_INLINE void Store(void* to, Floats x) { _mm256_storeu_ps(static_cast<float*>(to), x); }
  DUNLIN_INLINE Floats LoadFp16(const void* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  DUNLIN_INLINE Floats Mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  DUNLIN_INLINE Floats Broadcast(float value) { return _mm256_set1_ps(value); }
  DUNLIN_INLINE Factor ToFactor(float value) { return Broadcast(value); }
  DUNLIN_INLINE Floats Accumulate(Floats sum, Factor a, Floats b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
  }
  DUNLIN_INLINE Ints AsInts(Floats x) { return _mm256_castps_si256(x); }
  DUNLIN_INLINE Floats AsFloats(Ints bits) { return _mm256_castsi256_ps(bits); }
  DUNLIN_INLINE Floats ToFloats(Ints x) { return _mm256_cvtepi32_ps(x); }
  DUNLIN_INLINE Ints LoadInts(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  DUNLIN_INLINE Ints BroadcastInts(int value) { return _mm256_set1_epi32(value); }
  DUNLIN_INLINE Ints And(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  DUNLIN_INLINE Ints OrAnd(Ints a, Ints b, Ints c) { return _mm256_or_si256(a, And(b, c)); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft(Ints x) {
    return _mm256_slli_epi32(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight(Ints x) {
    return _mm256_srli_epi32(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned(Ints x) {
    return _mm256_srai_epi32(x, kBits);
  }
  DUNLIN_INLINE Floats FirstOfPairs(Ints pairs) { return AsFloats(ShiftLeft<16>(pairs)); }
  DUNLIN_INLINE Floats SecondOfPairs(Ints pairs) { return AsFloats(And(pairs, BroadcastInts(~0xFFFF))); }

  DUNLIN_INLINE Ints BroadcastBytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft16(Ints x) {
    return _mm256_slli_epi16(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight16(Ints x) {
    return _mm256_srli_epi16(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned16(Ints x) {
    return _mm256_srai_epi16(x, kBits);
  }
  DUNLIN_INLINE Ints ShuffleBytes(Ints table, Ints index) { return _mm256_shuffle_epi8(table, index); }
  DUNLIN_INLINE ByteMask LessBytes(Ints a, Ints b) { return _mm256_cmpgt_epi8(b, a); }
  DUNLIN_INLINE ByteMask EqualBytes(Ints a, Ints b) { return _mm256_cmpeq_epi8(a, b); }
  DUNLIN_INLINE bool Any(ByteMask mask) { return _mm256_movemask_epi8(mask) != 0; }
  DUNLIN_INLINE Ints SelectBytes(ByteMask mask, Ints a, Ints b) { return _mm256_blendv_epi8(b, a, mask); }
  DUNLIN_INLINE Ints AddBytes(Ints a, Ints b) { return _mm256_add_epi8(a, b); }
  DUNLIN_INLINE Ints UnpackLowBytes(Ints a, Ints b) { return _mm256_unpacklo_epi8(a, b); }
  DUNLIN_INLINE Ints UnpackHighBytes(Ints a, Ints b) { return _mm256_unpackhi_epi8(a, b); }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx2
