// SPDX-License-Identifier: Apache-2.0
// The lanes type (lanes.h) of AVX2, FMA and F16C: sixteen lanes are two registers. AVX2 translation units only.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/simd/half_lanes_avx2.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

// kMaskTable + 16 - n: n lanes of ones, then zeros.
alignas(64) constexpr int32_t kMaskTable[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

struct Lanes {
  struct Floats {
    __m256 low;
    __m256 high;
  };
  struct Ints {
    __m256i low;
    __m256i high;
  };
  struct Mask {
    __m256i low;
    __m256i high;
    int64_t count;  // leading lanes that are set; unspecified after a comparison
  };

  using Half = HalfLanes;  // the type of `low` and `high`
  using Factor = Floats;

  static constexpr int kNumVectors = 8;  // of sixteen lanes that the register file holds

  DUNLIN_INLINE Mask FirstLanes(int64_t left) {
    const int64_t count = left < simd::kLanes ? left : simd::kLanes;
    const auto* at = reinterpret_cast<const __m256i*>(kMaskTable + simd::kLanes - count);
    return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1), count};
  }

  DUNLIN_INLINE Floats Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  DUNLIN_INLINE Floats Broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  DUNLIN_INLINE Floats Iota(int start) {
    const __m256i low = _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(_mm256_add_epi32(low, _mm256_set1_epi32(8)))};
  }
  DUNLIN_INLINE Floats Load(const void* from) {
    const auto* at = static_cast<const float*>(from);
    return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)};
  }
  DUNLIN_INLINE Floats LoadMasked(const float* from, const Mask& mask) {
    if (mask.count == simd::kLanes) return Load(from);
    return {_mm256_maskload_ps(from, mask.low), _mm256_maskload_ps(from + 8, mask.high)};
  }
  DUNLIN_INLINE Floats LoadHalves(const float* low, const float* high) {
    return {_mm256_load_ps(low), _mm256_load_ps(high)};
  }
  DUNLIN_INLINE void Store(void* to, Floats x) {
    auto* at = static_cast<float*>(to);
    _mm256_storeu_ps(at, x.low);
    _mm256_storeu_ps(at + 8, x.high);
  }
  DUNLIN_INLINE void StoreMasked(float* to, const Mask& mask, Floats x) {
    if (mask.count == simd::kLanes) return Store(to, x);
    _mm256_maskstore_ps(to, mask.low, x.low);
    _mm256_maskstore_ps(to + 8, mask.high, x.high);
  }

  DUNLIN_INLINE Floats Add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats Sub(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats Mul(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats Div(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats Min(Floats a, Floats b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats Max(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
  DUNLIN_INLINE Floats MulAdd(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Floats NegMulAdd(Floats a, Floats b, Floats c) {
    return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Floats MulSub(Floats a, Floats b, Floats c) {
    return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Factor ToFactor(float value) { return Broadcast(value); }
  DUNLIN_INLINE Floats OfFactor(Factor factor) { return factor; }
  DUNLIN_INLINE Floats Accumulate(Floats sum, Factor a, Floats b) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum.low) : "x"(a.low), "x"(b.low));
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum.high) : "x"(a.high), "x"(b.high));
    return sum;
  }
  DUNLIN_INLINE Floats Abs(Floats x) { return AsFloats(And(AsInts(x), BroadcastInts(0x7FFFFFFF))); }
  DUNLIN_INLINE Floats CopySign(Floats magnitude, Floats sign) {
    return AsFloats(Or(AsInts(magnitude), And(AsInts(sign), BroadcastInts(static_cast<int>(0x80000000)))));
  }
  DUNLIN_INLINE Floats RoundToInteger(Floats x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, kNearest), _mm256_round_ps(x.high, kNearest)};
  }
  // In two steps, because 2^n itself may be no normal number; only the last product rounds.
  DUNLIN_INLINE Floats TimesPowerOf2(Floats x, Floats n) {
    const Ints whole = ToInts(n);
    const Ints half = {_mm256_srai_epi32(whole.low, 1), _mm256_srai_epi32(whole.high, 1)};
    return Mul(Mul(x, PowerOf2(half)), PowerOf2(SubInts(whole, half)));
  }
  DUNLIN_INLINE Floats PowerOf2(Ints n) {
    const Ints biased = AddInts(n, BroadcastInts(127));
    return AsFloats({_mm256_slli_epi32(biased.low, 23), _mm256_slli_epi32(biased.high, 23)});
  }
  DUNLIN_INLINE Mask Greater(Floats a, Floats b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)), 0};
  }
  DUNLIN_INLINE Mask NotLess(Floats a, Floats b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_NLT_UQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_NLT_UQ)), 0};
  }
  DUNLIN_INLINE Mask Equal(Floats a, Floats b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)), 0};
  }
  DUNLIN_INLINE Mask ZeroBytes(const uint8_t* from, const Mask& mask) {
    const __m128i zero = _mm_cmpeq_epi8(LoadBytesMasked(from, mask), _mm_setzero_si128());
    return {_mm256_cvtepi8_epi32(zero), _mm256_cvtepi8_epi32(_mm_srli_si128(zero, 8)), 0};
  }
  DUNLIN_INLINE Floats Select(const Mask& mask, Floats a, Floats b) {
    return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(mask.low)),
            _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(mask.high))};
  }
  DUNLIN_INLINE Floats SelectOrZero(const Mask& mask, Floats x) {
    return AsFloats(And(AsInts(x), {mask.low, mask.high}));
  }
  DUNLIN_INLINE float ReduceAdd(Floats lanes) {
    const __m256 eight = _mm256_add_ps(lanes.low, lanes.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  DUNLIN_INLINE float ReduceMax(Floats x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  DUNLIN_INLINE float FirstLane(Floats x) { return _mm256_cvtss_f32(x.low); }

  DUNLIN_INLINE Ints AsInts(Floats x) { return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)}; }
  DUNLIN_INLINE Floats AsFloats(Ints bits) { return {_mm256_castsi256_ps(bits.low), _mm256_castsi256_ps(bits.high)}; }
  DUNLIN_INLINE Ints BroadcastInts(int value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
  DUNLIN_INLINE Ints And(Ints a, Ints b) { return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)}; }
  DUNLIN_INLINE Ints Or(Ints a, Ints b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }
  DUNLIN_INLINE Ints AddInts(Ints a, Ints b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  DUNLIN_INLINE Ints SubInts(Ints a, Ints b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
  }
  DUNLIN_INLINE Ints MinInts(Ints a, Ints b) {
    return {_mm256_min_epi32(a.low, b.low), _mm256_min_epi32(a.high, b.high)};
  }
  DUNLIN_INLINE Ints MaxInts(Ints a, Ints b) {
    return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft(Ints x) {
    return {_mm256_slli_epi32(x.low, kBits), _mm256_slli_epi32(x.high, kBits)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned(Ints x) {
    return {_mm256_srai_epi32(x.low, kBits), _mm256_srai_epi32(x.high, kBits)};
  }
  DUNLIN_INLINE Floats ToFloats(Ints x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight(Ints x) {
    return {_mm256_srli_epi32(x.low, kBits), _mm256_srli_epi32(x.high, kBits)};
  }
  DUNLIN_INLINE Mask GreaterInts(Ints a, Ints b) {
    return {_mm256_cmpgt_epi32(a.low, b.low), _mm256_cmpgt_epi32(a.high, b.high), 0};
  }
  DUNLIN_INLINE Ints SelectInts(const Mask& mask, Ints a, Ints b) {
    return {_mm256_blendv_epi8(b.low, a.low, mask.low), _mm256_blendv_epi8(b.high, a.high, mask.high)};
  }
  DUNLIN_INLINE int ReduceMaxInts(Ints x) {
    const __m256i eight = _mm256_max_epi32(x.low, x.high);
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  DUNLIN_INLINE Ints ToInts(Floats x) { return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)}; }
  DUNLIN_INLINE Ints ToFp16Bits(Floats x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.low, kNearest)),
            _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.high, kNearest))};
  }

  DUNLIN_INLINE Ints LoadInts(const void* from) {
    const auto* at = static_cast<const __m256i*>(from);
    return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
  }
  DUNLIN_INLINE Ints LoadIntsMasked(const void* from, const Mask& mask) {
    if (mask.count == simd::kLanes) return LoadInts(from);
    const auto* at = static_cast<const int*>(from);
    return {_mm256_maskload_epi32(at, mask.low), _mm256_maskload_epi32(at + 8, mask.high)};
  }
  DUNLIN_INLINE Ints LoadUint16(const uint16_t* from) {
    const auto* at = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtepu16_epi32(_mm_loadu_si128(at)), _mm256_cvtepu16_epi32(_mm_loadu_si128(at + 1))};
  }
  DUNLIN_INLINE Ints LoadInt8(const void* from) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
  }
  DUNLIN_INLINE Floats FirstOfPairs(Ints pairs) {
    return AsFloats({_mm256_slli_epi32(pairs.low, 16), _mm256_slli_epi32(pairs.high, 16)});
  }
  DUNLIN_INLINE Floats SecondOfPairs(Ints pairs) { return AsFloats(And(pairs, BroadcastInts(~0xFFFF))); }
  DUNLIN_INLINE Floats LoadFp16(const void* from) {
    const auto* halves = static_cast<const __m128i*>(from);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  DUNLIN_INLINE Floats LoadFp16Masked(const void* from, const Mask& mask) {
    if (mask.count == simd::kLanes) return LoadFp16(from);
    const Copied<uint16_t> halves(from, mask);
    return LoadFp16(halves.elements);
  }
  DUNLIN_INLINE Floats LoadBf16Masked(const void* from, const Mask& mask) {
    if (mask.count == simd::kLanes) return LoadBf16(from);
    const Copied<uint16_t> halves(from, mask);
    return LoadBf16(halves.elements);
  }
  DUNLIN_INLINE Floats LoadE4M3Over256(const void* from) {
    return E4M3Over256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  DUNLIN_INLINE Floats LoadE4M3Over256Masked(const void* from, const Mask& mask) {
    return E4M3Over256(LoadBytesMasked(from, mask));
  }

  // The registers as bytes.
  using ByteMask = Ints;
  DUNLIN_INLINE Ints BroadcastBytes(int value) {
    return {_mm256_set1_epi8(static_cast<char>(value)), _mm256_set1_epi8(static_cast<char>(value))};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft16(Ints x) {
    return {_mm256_slli_epi16(x.low, kBits), _mm256_slli_epi16(x.high, kBits)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight16(Ints x) {
    return {_mm256_srli_epi16(x.low, kBits), _mm256_srli_epi16(x.high, kBits)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned16(Ints x) {
    return {_mm256_srai_epi16(x.low, kBits), _mm256_srai_epi16(x.high, kBits)};
  }
  DUNLIN_INLINE Ints AddBytes(Ints a, Ints b) {
    return {_mm256_add_epi8(a.low, b.low), _mm256_add_epi8(a.high, b.high)};
  }
  DUNLIN_INLINE bool Any(ByteMask mask) { return _mm256_movemask_epi8(_mm256_or_si256(mask.low, mask.high)) != 0; }
  DUNLIN_INLINE Ints ShuffleBytes(Ints table, Ints index) {
    return {_mm256_shuffle_epi8(table.low, index.low), _mm256_shuffle_epi8(table.high, index.high)};
  }
  DUNLIN_INLINE ByteMask LessBytes(Ints a, Ints b) {
    return {_mm256_cmpgt_epi8(b.low, a.low), _mm256_cmpgt_epi8(b.high, a.high)};
  }
  DUNLIN_INLINE ByteMask EqualBytes(Ints a, Ints b) {
    return {_mm256_cmpeq_epi8(a.low, b.low), _mm256_cmpeq_epi8(a.high, b.high)};
  }
  DUNLIN_INLINE Ints SelectBytes(ByteMask mask, Ints a, Ints b) {
    return {_mm256_blendv_epi8(b.low, a.low, mask.low), _mm256_blendv_epi8(b.high, a.high, mask.high)};
  }
  DUNLIN_INLINE Ints OrAnd(Ints a, Ints b, Ints c) { return Or(a, And(b, c)); }
  DUNLIN_INLINE Ints XorAnd(Ints a, Ints b, Ints c) {
    const Ints both = And(b, c);
    return {_mm256_xor_si256(a.low, both.low), _mm256_xor_si256(a.high, both.high)};
  }
  DUNLIN_INLINE Ints MulBytePairs(Ints a, Ints b) {
    return {_mm256_maddubs_epi16(a.low, b.low), _mm256_maddubs_epi16(a.high, b.high)};
  }
  DUNLIN_INLINE Ints MulSignedBytePairs(Ints a, Ints b) {
    const Ints with_sign = {_mm256_sign_epi8(b.low, a.low), _mm256_sign_epi8(b.high, a.high)};
    return MulBytePairs({_mm256_abs_epi8(a.low), _mm256_abs_epi8(a.high)}, with_sign);
  }
  DUNLIN_INLINE Ints AccumulateInts(Ints sum, Ints x) {
    __asm__("vpaddd %1, %0, %0" : "+x"(sum.low) : "x"(x.low));
    __asm__("vpaddd %1, %0, %0" : "+x"(sum.high) : "x"(x.high));
    return sum;
  }
  DUNLIN_INLINE Ints AccumulateWords(Ints sum, Ints x) {
    __asm__("vpaddw %1, %0, %0" : "+x"(sum.low) : "x"(x.low));
    __asm__("vpaddw %1, %0, %0" : "+x"(sum.high) : "x"(x.high));
    return sum;
  }
  DUNLIN_INLINE Ints SumWordPairs(Ints x) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(x.low, ones), _mm256_madd_epi16(x.high, ones)};
  }
  DUNLIN_INLINE void StoreLow8InOrder(void* to, const uint8_t (&order)[16], Ints x) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.low, x.high), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i index = _mm_loadu_si128(reinterpret_cast<const __m128i*>(order));
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm_shuffle_epi8(bytes, index));
  }
  DUNLIN_INLINE Ints UnpackLowBytes(Ints a, Ints b) {
    return {_mm256_unpacklo_epi8(a.low, b.low), _mm256_unpacklo_epi8(a.high, b.high)};
  }
  DUNLIN_INLINE Ints UnpackHighBytes(Ints a, Ints b) {
    return {_mm256_unpackhi_epi8(a.low, b.low), _mm256_unpackhi_epi8(a.high, b.high)};
  }

  // The low 16 bits of each lane. x must fit 16 bits unsigned.
  DUNLIN_INLINE __m256i Narrowed(Ints x) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(x.low, x.high), 0xD8);  // pack works inside 128-bit lanes
  }
  DUNLIN_INLINE void StoreLow16(uint16_t* to, const Mask& mask, Ints x) {
    const __m256i narrow = Narrowed(x);
    if (mask.count == simd::kLanes) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
    alignas(32) uint16_t lanes[simd::kLanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), narrow);
    std::memcpy(to, lanes, static_cast<size_t>(mask.count) * sizeof(uint16_t));
  }
  DUNLIN_INLINE void StoreLow8(uint8_t* to, const Mask& mask, Ints x) {
    const __m256i halves = Narrowed(x);
    const __m128i narrow = _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    if (mask.count == simd::kLanes) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow);
    alignas(16) uint8_t lanes[simd::kLanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(lanes), narrow);
    std::memcpy(to, lanes, static_cast<size_t>(mask.count));
  }

 private:
  // The first mask.count elements, zeros behind them: AVX2 has no masked loads of bytes and 16-bit words.
  template <typename Element>
  struct Copied {
    __attribute__((always_inline)) Copied(const void* from, const Mask& mask) {
      for (int64_t i = 0; i < mask.count; ++i) elements[i] = static_cast<const Element*>(from)[i];
    }
    Element elements[simd::kLanes] = {};
  };

  DUNLIN_INLINE __m128i LoadBytesMasked(const void* from, const Mask& mask) {
    if (mask.count == simd::kLanes) return _mm_loadu_si128(static_cast<const __m128i*>(from));
    const Copied<uint8_t> bytes(from, mask);
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.elements));
  }
  DUNLIN_INLINE Floats LoadBf16(const void* from) {
    const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(from));
    return FirstOfPairs({_mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves, 1))});
  }
  DUNLIN_INLINE Floats E4M3Over256(__m128i codes) {
    const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    const __m256i halves = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx2
