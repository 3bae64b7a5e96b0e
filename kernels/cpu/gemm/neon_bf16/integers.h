// SPDX-License-Identifier: Apache-2.0
// Codes in groups as BF16 pairs, which hold their integers exactly. Translation units of this folder only.
#pragma once

#include "kernels/api/code_levels.h"
#include "kernels/cpu/gemm/neon_bf16/products.h"
#include "kernels/cpu/gemm/vector/precisions.h"

namespace dunlin::kernels::cpu::neon_bf16 {
namespace {

// The BF16 of sixteen integers: their low and high bytes.
struct IntegerBytes {
  alignas(16) uint8_t low[16];
  alignas(16) uint8_t high[16];
};
template <typename ValueOf>
constexpr IntegerBytes MakeIntegerBytes(const ValueOf& value_of) {
  IntegerBytes bytes{};
  for (int code = 0; code < 16; ++code) {
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value_of(code))) >> 16;
    bytes.low[code] = static_cast<uint8_t>(bits);
    bytes.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  return bytes;
}
template <WeightFormat kFormat>
inline constexpr IntegerBytes kIntegerBytes = MakeIntegerBytes([](int code) -> int {
  constexpr const WeightFormatTraits& kTraits = Traits(kFormat);
  if constexpr (kTraits.levels != CodeLevels::kIntegers) return RowOf(kTraits.levels).values[code];
  return code >= 8 && UnsignedBias(kFormat) != 0 ? code - 16 : code;
});

// Words of 4-bit codes, eight K of a column, by a lookup of both bytes.
template <const IntegerBytes& kBytes>
struct Int4ToPairs {
  static constexpr int kSteps = 4;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, Lanes::Floats (&pairs)[4]) {
    const uint8x16_t low = vld1q_u8(kBytes.low);
    const uint8x16_t high = vld1q_u8(kBytes.high);
    DecodeColumns<0>(at, low, high, pairs);
    DecodeColumns<1>(at + 16, low, high, pairs);
    DecodeColumns<2>(at + 32, low, high, pairs);
    DecodeColumns<3>(at + 48, low, high, pairs);
  }

 private:
  // Of four columns. A word's low nibbles are K 0, 4, 1, 5, its high ones K 2, 6, 3, 7.
  template <int kQuarter>
  DUNLIN_INLINE void DecodeColumns(const std::byte* at, uint8x16_t low, uint8x16_t high, Lanes::Floats (&pairs)[4]) {
    const uint8x16_t words = vld1q_u8(reinterpret_cast<const uint8_t*>(at));
    PutTwo<kQuarter>(vandq_u8(words, vdupq_n_u8(0xF)), low, high, pairs[0], pairs[2]);
    PutTwo<kQuarter>(vshrq_n_u8(words, 4), low, high, pairs[1], pairs[3]);
  }
  template <int kQuarter>
  DUNLIN_INLINE void PutTwo(uint8x16_t codes, uint8x16_t low, uint8x16_t high, Lanes::Floats& first,
                            Lanes::Floats& second) {
    const uint8x16_t low_bytes = vqtbl1q_u8(low, codes);
    const uint8x16_t high_bytes = vqtbl1q_u8(high, codes);
    neon_i8mm::QuarterOf<kQuarter>(first) = vreinterpretq_f32_u8(vtrn1q_u8(low_bytes, high_bytes));
    neon_i8mm::QuarterOf<kQuarter>(second) = vreinterpretq_f32_u8(vtrn2q_u8(low_bytes, high_bytes));
  }
};

// INT8 codes, by way of floats, whose high halves are exact.
struct Int8ToPairs {
  static constexpr int kSteps = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, Lanes::Floats (&pairs)[2]) {
    DecodeColumns<0>(at, pairs);
    DecodeColumns<1>(at + 16, pairs);
    DecodeColumns<2>(at + 32, pairs);
    DecodeColumns<3>(at + 48, pairs);
  }

 private:
  // Of four columns: a pair of K of each, then the next pair.
  template <int kQuarter>
  DUNLIN_INLINE void DecodeColumns(const std::byte* at, Lanes::Floats (&pairs)[2]) {
    const int8x16_t codes = vld1q_s8(reinterpret_cast<const int8_t*>(at));
    neon_i8mm::QuarterOf<kQuarter>(pairs[0]) = PairsOf(vmovl_s8(vget_low_s8(codes)));
    neon_i8mm::QuarterOf<kQuarter>(pairs[1]) = PairsOf(vmovl_high_s8(codes));
  }
  DUNLIN_INLINE float32x4_t PairsOf(int16x8_t codes) {
    const float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(codes)));
    const float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(codes));
    return vreinterpretq_f32_u16(vuzp2q_u16(vreinterpretq_u16_f32(low), vreinterpretq_u16_f32(high)));
  }
};

template <WeightFormat kFormat>
constexpr auto MakePairs() {
  if constexpr (Traits(kFormat).code_bits == 4) {
    return Int4ToPairs<kIntegerBytes<kFormat>>();
  } else if constexpr (Traits(kFormat).code_bits == 8) {
    return Int8ToPairs();
  } else {
    return simd::IntegersToPairs<Lanes, simd::FloatsOf<Lanes, kFormat>>();
  }
}

template <WeightFormat kFormat>
struct Grouped : PairProducts<decltype(MakePairs<kFormat>())> {
  using Scales = simd::ScalesOf<Lanes, kFormat>;
  static constexpr bool kGrouped = true;
};
// For MakeGemmKernels.
struct GroupedProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    simd::VectorGemm<Lanes, Grouped<kFormat>>::Run(block);
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon_bf16
