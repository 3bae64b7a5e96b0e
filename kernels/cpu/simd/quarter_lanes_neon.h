// SPDX-License-Identifier: Apache-2.0
// Four lanes in one register of Armv8.0: a quarter of a vector of neon::Lanes (lanes_neon.h), whose functions
// documented in lanes_avx512.h are each an instruction or few here. Min and Max are NaN where an operand is; callers
// need that of the second operand alone. NEON translation units only.
#pragma once

#include <arm_neon.h>

#include <cstddef>

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::neon {
namespace {

struct Quarter {
  using Floats = float32x4_t;
  using Ints = int32x4_t;
  using Mask = uint32x4_t;
  using ByteMask = uint8x16_t;
  using Factor = float;
  static constexpr int kCount = 4;

  DUNLIN_INLINE Floats Broadcast(float value) { return vdupq_n_f32(value); }
  DUNLIN_INLINE Floats Load(const void* from) { return vld1q_f32(static_cast<const float*>(from)); }
  DUNLIN_INLINE void Store(void* to, Floats x) { vst1q_f32(static_cast<float*>(to), x); }
  DUNLIN_INLINE Floats Add(Floats a, Floats b) { return vaddq_f32(a, b); }
  DUNLIN_INLINE Floats Sub(Floats a, Floats b) { return vsubq_f32(a, b); }
  DUNLIN_INLINE Floats Mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  DUNLIN_INLINE Floats Div(Floats a, Floats b) { return vdivq_f32(a, b); }
  DUNLIN_INLINE Floats Min(Floats a, Floats b) { return vminq_f32(a, b); }
  DUNLIN_INLINE Floats Max(Floats a, Floats b) { return vmaxq_f32(a, b); }
  DUNLIN_INLINE Floats MulAdd(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  DUNLIN_INLINE Floats NegMulAdd(Floats a, Floats b, Floats c) { return vfmsq_f32(c, a, b); }
  DUNLIN_INLINE Floats MulSub(Floats a, Floats b, Floats c) { return vfmaq_f32(vnegq_f32(c), a, b); }
  // By the lane of a register that a scalar load fills. Inline assembly, because GCC 12 would fill all lanes of it,
  // which takes a slot of the units that multiply.
  DUNLIN_INLINE Floats Accumulate(Floats sum, Factor a, Floats b) {
    __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum) : "w"(b), "w"(a));
    return sum;
  }
  DUNLIN_INLINE Floats RoundToInteger(Floats x) { return vrndnq_f32(x); }
  DUNLIN_INLINE Mask Greater(Floats a, Floats b) { return vcgtq_f32(a, b); }
  DUNLIN_INLINE Mask NotLess(Floats a, Floats b) { return vmvnq_u32(vcltq_f32(a, b)); }
  DUNLIN_INLINE Mask Equal(Floats a, Floats b) { return vceqq_f32(a, b); }
  DUNLIN_INLINE Floats Select(Mask mask, Floats a, Floats b) { return vbslq_f32(mask, a, b); }
  DUNLIN_INLINE Floats SelectOrZero(Mask mask, Floats x) {
    return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(x)));
  }

  DUNLIN_INLINE Ints AsInts(Floats x) { return vreinterpretq_s32_f32(x); }
  DUNLIN_INLINE Floats AsFloats(Ints bits) { return vreinterpretq_f32_s32(bits); }
  DUNLIN_INLINE Ints BroadcastInts(int value) { return vdupq_n_s32(value); }
  DUNLIN_INLINE Ints And(Ints a, Ints b) { return vandq_s32(a, b); }
  DUNLIN_INLINE Ints Or(Ints a, Ints b) { return vorrq_s32(a, b); }
  DUNLIN_INLINE Ints XorAnd(Ints a, Ints b, Ints c) { return veorq_s32(a, vandq_s32(b, c)); }
  DUNLIN_INLINE Ints AddInts(Ints a, Ints b) { return vaddq_s32(a, b); }
  DUNLIN_INLINE Ints SubInts(Ints a, Ints b) { return vsubq_s32(a, b); }
  DUNLIN_INLINE Ints MinInts(Ints a, Ints b) { return vminq_s32(a, b); }
  DUNLIN_INLINE Ints MaxInts(Ints a, Ints b) { return vmaxq_s32(a, b); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft(Ints x) {
    return vshlq_n_s32(x, kBits);
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight(Ints x) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), kBits));
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned(Ints x) {
    return vshrq_n_s32(x, kBits);
  }
  DUNLIN_INLINE Floats ToFloats(Ints x) { return vcvtq_f32_s32(x); }
  DUNLIN_INLINE Ints ToInts(Floats x) { return vcvtnq_s32_f32(x); }
  DUNLIN_INLINE Ints ToFp16Bits(Floats x) {
    return vreinterpretq_s32_u32(vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(x))));
  }
  DUNLIN_INLINE Mask GreaterInts(Ints a, Ints b) { return vcgtq_s32(a, b); }
  DUNLIN_INLINE Ints SelectInts(Mask mask, Ints a, Ints b) { return vbslq_s32(mask, a, b); }
  DUNLIN_INLINE Ints LoadUint16(const void* from) {
    return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(static_cast<const uint16_t*>(from))));
  }
  DUNLIN_INLINE Floats LoadFp16(const void* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const uint16_t*>(from))));
  }
  DUNLIN_INLINE Floats LoadBf16(const void* from) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(static_cast<const uint16_t*>(from)), 16));
  }

  DUNLIN_INLINE Ints OfBytes(int8x16_t bytes) { return vreinterpretq_s32_s8(bytes); }
  DUNLIN_INLINE int8x16_t Bytes(Ints x) { return vreinterpretq_s8_s32(x); }
  DUNLIN_INLINE Ints OfWords(int16x8_t words) { return vreinterpretq_s32_s16(words); }
  DUNLIN_INLINE int16x8_t Words(Ints x) { return vreinterpretq_s16_s32(x); }
  DUNLIN_INLINE Ints BroadcastBytes(int value) { return OfBytes(vdupq_n_s8(static_cast<int8_t>(value))); }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft16(Ints x) {
    return OfWords(vshlq_n_s16(Words(x), kBits));
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight16(Ints x) {
    return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(x), kBits));
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned16(Ints x) {
    return OfWords(vshrq_n_s16(Words(x), kBits));
  }
  DUNLIN_INLINE Ints AddBytes(Ints a, Ints b) { return OfBytes(vaddq_s8(Bytes(a), Bytes(b))); }
  // Index bytes are below 16, or their result is not used.
  DUNLIN_INLINE Ints ShuffleBytes(Ints table, Ints index) {
    return OfBytes(vqtbl1q_s8(Bytes(table), vreinterpretq_u8_s32(index)));
  }
  DUNLIN_INLINE bool Any(ByteMask mask) { return vmaxvq_u8(mask) != 0; }
  DUNLIN_INLINE ByteMask LessBytes(Ints a, Ints b) { return vcltq_s8(Bytes(a), Bytes(b)); }
  DUNLIN_INLINE ByteMask EqualBytes(Ints a, Ints b) { return vceqq_s8(Bytes(a), Bytes(b)); }
  DUNLIN_INLINE Ints SelectBytes(ByteMask mask, Ints a, Ints b) { return OfBytes(vbslq_s8(mask, Bytes(a), Bytes(b))); }
  DUNLIN_INLINE Ints UnpackLowBytes(Ints a, Ints b) { return OfBytes(vzip1q_s8(Bytes(a), Bytes(b))); }
  DUNLIN_INLINE Ints UnpackHighBytes(Ints a, Ints b) { return OfBytes(vzip2q_s8(Bytes(a), Bytes(b))); }
  DUNLIN_INLINE Ints MulSignedBytePairs(Ints a, Ints b) {
    const int16x8_t low = vmull_s8(vget_low_s8(Bytes(a)), vget_low_s8(Bytes(b)));
    return OfWords(vpaddq_s16(low, vmull_high_s8(Bytes(a), Bytes(b))));
  }
  DUNLIN_INLINE Ints AccumulateWords(Ints sum, Ints x) { return OfWords(vaddq_s16(Words(sum), Words(x))); }
  DUNLIN_INLINE Ints SumWordPairs(Ints x) { return vpaddlq_s16(Words(x)); }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon
