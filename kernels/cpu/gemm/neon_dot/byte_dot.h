// SPDX-License-Identifier: Apache-2.0
// The dot product of four signed bytes, for inputs in 8 bits. Translation units with its instructions only.
#pragma once

#include "kernels/cpu/gemm/vector/byte_products.h"
#include "kernels/cpu/simd/lanes_neon.h"

namespace dunlin::kernels::cpu::neon_dot {
namespace {

using neon::Lanes;

template <int32_t kCodeBits>
struct DotBytes {
  static constexpr bool kStarts = kCodeBits != 8;
  DUNLIN_INLINE Lanes::Floats Add(Lanes::Floats sum, Lanes::Factor a, Lanes::Floats w) {
    return {AddHalf(sum.low, a, w.low), AddHalf(sum.high, a, w.high)};
  }
  DUNLIN_INLINE Lanes::Ints Integers(Lanes::Floats sum, int32_t) { return Lanes::AsInts(sum); }

 private:
  DUNLIN_INLINE Lanes::Half::Floats AddHalf(Lanes::Half::Floats sum, Lanes::Factor a, Lanes::Half::Floats w) {
    return {AddQuarter(sum.low, a, w.low), AddQuarter(sum.high, a, w.high)};
  }
  // By the lane of a register that a scalar load fills (Quarter::Accumulate).
  DUNLIN_INLINE float32x4_t AddQuarter(float32x4_t sum, float a, float32x4_t w) {
    __asm__("sdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(w), "w"(a));
    return sum;
  }
};

// Element: of the variant's BF16 rows.
template <typename Element>
struct DotProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    using Products = DotBytes<IntegerBits(kFormat)>;
    simd::VectorGemm<Lanes, simd::GroupedBytes<Lanes, kFormat, Products, /*kSignedBytes=*/true>>::Run(block);
  }
  static void Round(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
    const int32_t bias = IntegerBits(format) == 8 ? 0 : UnsignedBias(format);
    simd::RoundInputRow<Lanes, Element>(row, columns, format, bias, coded);
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon_dot
