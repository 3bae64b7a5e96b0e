// SPDX-License-Identifier: Apache-2.0
// The lanes type (lanes.h) of Armv8.0: sixteen lanes are four registers, two of which are HalfLanes. NEON translation
// units only.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "kernels/cpu/simd/doubled_lanes.h"
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/quarter_lanes_neon.h"

namespace dunlin::kernels::cpu::neon {
namespace {

// kMaskTable + 16 - n: n lanes of ones, then zeros.
alignas(64) constexpr uint32_t kMaskTable[32] = {~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U,
                                                 ~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U};

using HalfLanes = simd::DoubledLanes<Quarter>;

struct Lanes : simd::DoubledLanes<HalfLanes> {
  using All = simd::DoubledLanes<HalfLanes>;
  using Half = HalfLanes;  // the type of `low` and `high`
  struct Mask : All::Mask {
    Mask() = default;
    Mask(const All::Mask& bits, int64_t leading = 0) : All::Mask(bits), count(leading) {}
    int64_t count;  // leading lanes that are set; unspecified after a comparison
  };

  static constexpr int kNumVectors = 8;  // of sixteen lanes that the register file holds

  DUNLIN_INLINE Mask FirstLanes(int64_t left) {
    const int64_t count = left < simd::kLanes ? left : simd::kLanes;
    const uint32_t* at = kMaskTable + simd::kLanes - count;
    return {{{vld1q_u32(at), vld1q_u32(at + 4)}, {vld1q_u32(at + 8), vld1q_u32(at + 12)}}, count};
  }
  DUNLIN_INLINE Floats Iota(int start) {
    constexpr int32_t kSteps[simd::kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return ToFloats(AddInts(BroadcastInts(start), LoadInts(kSteps)));
  }
  DUNLIN_INLINE Floats LoadHalves(const float* low, const float* high) { return {Half::Load(low), Half::Load(high)}; }

  DUNLIN_INLINE Floats LoadMasked(const float* from, const Mask& mask) {
    return mask.count == simd::kLanes ? Load(from) : Load(Copied<float>(from, mask).elements);
  }
  DUNLIN_INLINE Ints LoadIntsMasked(const void* from, const Mask& mask) {
    return mask.count == simd::kLanes ? LoadInts(from) : LoadInts(Copied<int32_t>(from, mask).elements);
  }
  DUNLIN_INLINE Floats LoadFp16Masked(const void* from, const Mask& mask) {
    return mask.count == simd::kLanes ? LoadFp16(from) : LoadFp16(Copied<uint16_t>(from, mask).elements);
  }
  DUNLIN_INLINE Floats LoadBf16Masked(const void* from, const Mask& mask) {
    return mask.count == simd::kLanes ? LoadBf16(from) : LoadBf16(Copied<uint16_t>(from, mask).elements);
  }
  DUNLIN_INLINE Floats LoadE4M3Over256(const void* from) { return E4M3Over256(LoadBytes(from)); }
  DUNLIN_INLINE Floats LoadE4M3Over256Masked(const void* from, const Mask& mask) {
    return E4M3Over256(LoadBytesMasked(from, mask));
  }
  DUNLIN_INLINE Ints LoadInt8(const void* from) { return Widened(LoadBytes(from)); }

  DUNLIN_INLINE void StoreMasked(float* to, const Mask& mask, Floats x) {
    if (mask.count == simd::kLanes) return Store(to, x);
    float lanes[simd::kLanes];
    Store(lanes, x);
    std::memcpy(to, lanes, static_cast<size_t>(mask.count) * sizeof(float));
  }
  // x must fit 16 bits; StoreLow8: 8 bits.
  DUNLIN_INLINE void StoreLow16(uint16_t* to, const Mask& mask, Ints x) {
    uint16_t lanes[simd::kLanes];
    uint16_t* at = mask.count == simd::kLanes ? to : lanes;
    vst1q_u16(at, vreinterpretq_u16_s16(Narrowed(x.low)));
    vst1q_u16(at + 8, vreinterpretq_u16_s16(Narrowed(x.high)));
    if (at == lanes) std::memcpy(to, lanes, static_cast<size_t>(mask.count) * sizeof(uint16_t));
  }
  DUNLIN_INLINE void StoreLow8(uint8_t* to, const Mask& mask, Ints x) {
    const uint8x16_t narrow = vreinterpretq_u8_s8(LowBytes(x));
    if (mask.count == simd::kLanes) return vst1q_u8(to, narrow);
    uint8_t lanes[simd::kLanes];
    vst1q_u8(lanes, narrow);
    std::memcpy(to, lanes, static_cast<size_t>(mask.count));
  }
  DUNLIN_INLINE void StoreLow8InOrder(void* to, const uint8_t (&order)[16], Ints x) {
    vst1q_s8(static_cast<int8_t*>(to), vqtbl1q_s8(LowBytes(x), vld1q_u8(order)));
  }

  DUNLIN_INLINE Floats Abs(Floats x) { return AsFloats(And(AsInts(x), BroadcastInts(0x7FFFFFFF))); }
  DUNLIN_INLINE Floats CopySign(Floats magnitude, Floats sign) {
    return AsFloats(OrAnd(AsInts(magnitude), AsInts(sign), BroadcastInts(static_cast<int>(0x80000000))));
  }
  // In two steps, because 2^n itself may be no normal number; only the last product rounds.
  DUNLIN_INLINE Floats TimesPowerOf2(Floats x, Floats n) {
    const Ints whole = ToInts(n);
    const Ints half = ShiftRightSigned<1>(whole);
    return Mul(Mul(x, PowerOf2(half)), PowerOf2(SubInts(whole, half)));
  }
  DUNLIN_INLINE Mask ZeroBytes(const uint8_t* from, const Mask& mask) {
    const int8x16_t zero = vreinterpretq_s8_u8(vceqzq_s8(LoadBytesMasked(from, mask)));
    return GreaterInts(BroadcastInts(0), Widened(zero));
  }

  DUNLIN_INLINE float ReduceAdd(Floats lanes) {
    const Half::Floats eight = Half::Add(lanes.low, lanes.high);
    const float32x4_t four = vaddq_f32(eight.low, eight.high);
    return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
  }
  DUNLIN_INLINE float ReduceMax(Floats x) {
    const Half::Floats eight = Half::Max(x.low, x.high);
    return vmaxvq_f32(vmaxq_f32(eight.low, eight.high));
  }
  DUNLIN_INLINE int ReduceMaxInts(Ints x) {
    const Half::Ints eight = Half::MaxInts(x.low, x.high);
    return vmaxvq_s32(vmaxq_s32(eight.low, eight.high));
  }
  DUNLIN_INLINE float FirstLane(Floats x) { return vgetq_lane_f32(x.low.low, 0); }

  // Codes below 128: as signed bytes.
  DUNLIN_INLINE Ints MulBytePairs(Ints a, Ints b) { return MulSignedBytePairs(a, b); }

 private:
  // The first mask.count elements, zeros behind them: NEON has no masked loads.
  template <typename Element>
  struct Copied {
    __attribute__((always_inline)) Copied(const void* from, const Mask& mask) {
      for (int64_t i = 0; i < mask.count; ++i) elements[i] = static_cast<const Element*>(from)[i];
    }
    Element elements[simd::kLanes] = {};
  };

  DUNLIN_INLINE int8x16_t LoadBytes(const void* from) { return vld1q_s8(static_cast<const int8_t*>(from)); }
  DUNLIN_INLINE int8x16_t LoadBytesMasked(const void* from, const Mask& mask) {
    return mask.count == simd::kLanes ? LoadBytes(from) : LoadBytes(Copied<int8_t>(from, mask).elements);
  }
  DUNLIN_INLINE Ints Widened(int8x16_t bytes) {
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
    const int16x8_t high = vmovl_high_s8(bytes);
    return {{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low)}, {vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)}};
  }
  DUNLIN_INLINE int16x8_t Narrowed(Half::Ints x) { return vuzp1q_s16(Quarter::Words(x.low), Quarter::Words(x.high)); }
  DUNLIN_INLINE int8x16_t LowBytes(Ints x) {
    return vuzp1q_s8(vreinterpretq_s8_s16(Narrowed(x.low)), vreinterpretq_s8_s16(Narrowed(x.high)));
  }

  DUNLIN_INLINE Floats PowerOf2(Ints n) { return AsFloats(ShiftLeft<23>(AddInts(n, BroadcastInts(127)))); }
  DUNLIN_INLINE Half::Floats Fp16Over256(int16x8_t moved) {
    const float16x8_t halves = vreinterpretq_f16_s16(vandq_s16(moved, vdupq_n_s16(static_cast<int16_t>(0xBFFF))));
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
  }
  DUNLIN_INLINE Floats E4M3Over256(int8x16_t codes) {
    return {Fp16Over256(vshll_n_s8(vget_low_s8(codes), 7)), Fp16Over256(vshll_high_n_s8(codes, 7))};
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon
