// The vector policy (kernels/cpu/vector/lanes.h) of AVX2: sixteen lanes are two registers. AVX2 translation units only.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/vector/lanes.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

// mask_table + 16 - n: n lanes of ones, then zeros.
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
    int64_t count;  // lanes that exist; of no meaning after a comparison
  };

  // 6 x 1 x 2 registers of sums, 2 weights and a broadcast fit 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr int kTileRowsMin = 3;
  static constexpr int kTileVectors = 1;
  static constexpr int kNarrowRows = 2;         // 2 x 3 x 2 registers of sums
  static constexpr bool kDecodesWhole = false;  // vector by vector, for want of registers
  static constexpr bool kAsksL2 = false;

  DUNLIN_LANE Mask MaskOf(int64_t left) {
    const int64_t count = left < vector::kLanes ? left : vector::kLanes;
    const auto* at = reinterpret_cast<const __m256i*>(kMaskTable + vector::kLanes - count);
    return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1), count};
  }

  DUNLIN_LANE Floats Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  DUNLIN_LANE Floats All(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  DUNLIN_LANE Floats Load(const void* from) {
    const auto* at = static_cast<const float*>(from);
    return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)};
  }
  DUNLIN_LANE Floats LoadPart(const float* from, const Mask& mask) {
    if (mask.count == vector::kLanes) return Load(from);
    return {_mm256_maskload_ps(from, mask.low), _mm256_maskload_ps(from + 8, mask.high)};
  }
  DUNLIN_LANE void Store(void* to, Floats x) {
    auto* at = static_cast<float*>(to);
    _mm256_storeu_ps(at, x.low);
    _mm256_storeu_ps(at + 8, x.high);
  }
  DUNLIN_LANE void StorePart(float* to, const Mask& mask, Floats x) {
    if (mask.count == vector::kLanes) return Store(to, x);
    _mm256_maskstore_ps(to, mask.low, x.low);
    _mm256_maskstore_ps(to + 8, mask.high, x.high);
  }

  DUNLIN_LANE Floats Add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  DUNLIN_LANE Floats Sub(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  DUNLIN_LANE Floats Mul(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  DUNLIN_LANE Floats Div(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  DUNLIN_LANE Floats Min(Floats a, Floats b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
  DUNLIN_LANE Floats Max(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
  DUNLIN_LANE Floats MulAdd(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  DUNLIN_LANE Floats NegMulAdd(Floats a, Floats b, Floats c) {
    return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
  }
  DUNLIN_LANE Floats Abs(Floats x) { return FloatsOf(And(Bits(x), AllInts(0x7FFFFFFF))); }
  DUNLIN_LANE Floats RoundToWhole(Floats x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, kNearest), _mm256_round_ps(x.high, kNearest)};
  }
  // In two steps, because 2^n itself may be no normal number; only the last product rounds.
  DUNLIN_LANE Floats TimesPowerOf2(Floats x, Floats n) {
    const Ints whole = ToInts(n);
    const Ints half = {_mm256_srai_epi32(whole.low, 1), _mm256_srai_epi32(whole.high, 1)};
    return Mul(Mul(x, PowerOf2(half)), PowerOf2(SubInts(whole, half)));
  }
  DUNLIN_LANE Floats PowerOf2(Ints n) {
    const Ints biased = AddInts(n, AllInts(127));
    return FloatsOf({_mm256_slli_epi32(biased.low, 23), _mm256_slli_epi32(biased.high, 23)});
  }
  DUNLIN_LANE Mask Greater(Floats a, Floats b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ)),
            _mm256_castps_si256(_mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)), 0};
  }
  DUNLIN_LANE Floats Select(const Mask& mask, Floats a, Floats b) {
    return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(mask.low)),
            _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(mask.high))};
  }
  DUNLIN_LANE Floats Keep(const Mask& mask, Floats x) { return FloatsOf(And(Bits(x), {mask.low, mask.high})); }
  DUNLIN_LANE float AddLanes(Floats lanes) {
    const __m256 eight = _mm256_add_ps(lanes.low, lanes.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  DUNLIN_LANE Ints Bits(Floats x) { return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)}; }
  DUNLIN_LANE Floats FloatsOf(Ints bits) { return {_mm256_castsi256_ps(bits.low), _mm256_castsi256_ps(bits.high)}; }
  DUNLIN_LANE Ints AllInts(int value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
  DUNLIN_LANE Ints And(Ints a, Ints b) { return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)}; }
  DUNLIN_LANE Ints Or(Ints a, Ints b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }
  DUNLIN_LANE Ints AddInts(Ints a, Ints b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  DUNLIN_LANE Ints SubInts(Ints a, Ints b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
  }
  DUNLIN_LANE Ints MinInts(Ints a, Ints b) {
    return {_mm256_min_epi32(a.low, b.low), _mm256_min_epi32(a.high, b.high)};
  }
  DUNLIN_LANE Ints MaxInts(Ints a, Ints b) {
    return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
  }
  template <int kBits>
  DUNLIN_LANE Ints ShiftRight(Ints x) {
    return {_mm256_srli_epi32(x.low, kBits), _mm256_srli_epi32(x.high, kBits)};
  }
  DUNLIN_LANE Mask GreaterInts(Ints a, Ints b) {
    return {_mm256_cmpgt_epi32(a.low, b.low), _mm256_cmpgt_epi32(a.high, b.high), 0};
  }
  DUNLIN_LANE Ints SelectInts(const Mask& mask, Ints a, Ints b) {
    return {_mm256_blendv_epi8(b.low, a.low, mask.low), _mm256_blendv_epi8(b.high, a.high, mask.high)};
  }
  DUNLIN_LANE int LargestLane(Ints x) {
    const __m256i eight = _mm256_max_epi32(x.low, x.high);
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  DUNLIN_LANE Ints ToInts(Floats x) { return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)}; }
  DUNLIN_LANE Ints ToHalves(Floats x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.low, kNearest)),
            _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.high, kNearest))};
  }

  // The low halves of the lanes. x must fit 16 bits without sign.
  DUNLIN_LANE __m256i Narrowed(Ints x) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(x.low, x.high), 0xD8);  // pack works inside 128-bit lanes
  }
  DUNLIN_LANE void StoreLow16(uint16_t* to, const Mask& mask, Ints x) {
    const __m256i narrow = Narrowed(x);
    if (mask.count == vector::kLanes) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow);
    alignas(32) uint16_t lanes[vector::kLanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), narrow);
    std::memcpy(to, lanes, static_cast<size_t>(mask.count) * sizeof(uint16_t));
  }
  DUNLIN_LANE void StoreLow8(uint8_t* to, const Mask& mask, Ints x) {
    const __m256i halves = Narrowed(x);
    const __m128i narrow = _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    if (mask.count == vector::kLanes) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow);
    alignas(16) uint8_t lanes[vector::kLanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(lanes), narrow);
    std::memcpy(to, lanes, static_cast<size_t>(mask.count));
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx2
