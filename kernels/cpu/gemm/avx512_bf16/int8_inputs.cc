// SPDX-License-Identifier: Apache-2.0
// Products of inputs in 8 bits with integer codes by the dot product of four bytes.
#include "kernels/cpu/gemm/vector/byte_products.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

using avx512::Lanes;

struct DotBytes {
  static constexpr bool kFromMemory = true;
  static constexpr bool kStarts = true;
  DUNLIN_INLINE __m512 Add(__m512 sum, __m512 a, __m512 w) {
    return Lanes::AsFloats(_mm512_dpbusd_epi32(Lanes::AsInts(sum), Lanes::AsInts(w), Lanes::AsInts(a)));
  }
  DUNLIN_INLINE __m512 AddFrom(__m512 sum, const simd::AliasedFloat& bytes, __m512 w) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they do not see what an asm reads
    return Add(sum, _mm512_set1_ps(bytes), w);
#else
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(bytes));
    return sum;
#endif
  }
  DUNLIN_INLINE __m512i Integers(__m512 sum, int32_t) {
    return Lanes::AsInts(sum);
  }
};

// Codes of 4 and 8 bits are decoded by every tile, beside whose products three operations for one or two vectors cost
// nothing, while a product that reads its row itself saves the broadcast into a register: on a Zen 4, 128 rows, 297
// GFLOP/s where slices of widened codes reach 262 (INT4), and 302 and 261 (INT8). Codes of 6 bits take four times as
// many operations.
template <WeightFormat kFormat>
struct Int8Inputs : simd::GroupedBytes<Lanes, kFormat, DotBytes, false> {
  static constexpr int64_t kGroup = Traits(kFormat).group;
  static constexpr int kMaxSmallM = Traits(kFormat).code_bits == 6 ? 8 : kGroup == 16 ? 32 : kGemmRowsMax;
};

struct Int8Products {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    simd::VectorGemm<Lanes, Int8Inputs<kFormat>>::Run(block);
  }
  static void Round(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
    simd::RoundInputRow<Lanes, uint16_t>(row, columns, format, UnsignedBias(format), coded);
  }
};

}  // namespace

const Int8GemmKernels kInt8Kernels = MakeInt8Kernels<Int8Products>();

}  // namespace dunlin::kernels::cpu::avx512_bf16
