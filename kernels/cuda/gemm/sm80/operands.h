// SPDX-License-Identifier: Apache-2.0
// Operands of the tile GEMM: how 32 bytes of a row in shared memory become registers of mma.m16n8k16. Two-byte elements
// are used directly. E4M3 codes are widened to FP16, exactly; a lane then holds other depths than the instruction
// assigns it, the same ones in both operands, so the sum of products is unchanged.
#pragma once

#include "kernels/cuda/block/tensor_core.h"

namespace dunlin::kernels::cuda {

using RawFrag = Frag<uint32_t, 4>;  // four matrices of 8 rows by 16 bytes, as LoadMatrices loads them

// Two codes as the halves of a word, each an FP16 of 2^-8 times its value, because E4M3's exponent bias is 8 less than
// FP16's. codes: in bytes 1 and 3. NaN stays NaN.
DUNLIN_HD constexpr uint32_t HalvesOfCodes(uint32_t codes) {
  const uint32_t magnitude = (codes & 0x7F007F00U) >> 1;
  return (codes & 0x80008000U) | magnitude | ((magnitude + 0x00800080U) & 0x40004000U);
}

// Codes 2 pair and 2 pair + 1 of the four, as FP16.
DUNLIN_HD inline uint32_t WidenCodePair(uint32_t codes, int pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  const auto two = static_cast<uint16_t>(codes >> (16 * pair));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(two));
  return halves;
#elif defined(__CUDA_ARCH__)
  const uint32_t spread = HalvesOfCodes(__byte_perm(codes, 0, pair == 0 ? 0x1404 : 0x3424));
  uint32_t halves;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(spread), "r"(0x5C005C00U));  // times 256, exactly
  return halves;
#else
  const auto half = [codes](int code) {
    return uint32_t{FloatToFp16(E4M3ToFloat(static_cast<uint8_t>(codes >> (8 * code))))};
  };
  return half(2 * pair) | half(2 * pair + 1) << 16;
#endif
}

template <typename ElementFormat>
struct PlainOperand {
  using Format = ElementFormat;
  static constexpr int kSteps = 1;  // steps of 16 depths in 32 bytes

  DUNLIN_HD static void Left(const RawFrag& raw, int /*step*/, RawFrag* a) { *a = raw; }
  DUNLIN_HD static void Right(const RawFrag& raw, int /*step*/, RawFrag* b) { *b = raw; }
};

struct CodeOperand {
  using Format = Fp16Format;
  static constexpr int kSteps = 2;

  // raw: rows 0..7 and 8..15 of the first 16 bytes, then of the second.
  DUNLIN_HD static void Left(const RawFrag& raw, int step, RawFrag* a) {
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int r = 0; r < 4; ++r) a->at(lane, r) = WidenCodePair(raw.at(lane, 2 * step + r % 2), r / 2);
    });
  }
  // raw: both 16 bytes of columns 0..7, then of columns 8..15.
  DUNLIN_HD static void Right(const RawFrag& raw, int step, RawFrag* b) {
    ForLanes([&](int lane) {
      DUNLIN_UNROLL
      for (int r = 0; r < 4; ++r) b->at(lane, r) = WidenCodePair(raw.at(lane, r / 2 * 2 + step), r % 2);
    });
  }
};

}  // namespace dunlin::kernels::cuda
