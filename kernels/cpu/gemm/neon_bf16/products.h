// SPDX-License-Identifier: Apache-2.0
// BF16 pairs: a row or two by the dot product (BFDOT), more by the matrix product (BFMMLA). Translation units of this
// folder only.
//
// Both add a pair's two products to each other, then to the sum, and round each of these sums to odd, with results
// below the normal numbers as zeros; the matrix product does so for one pair after the other (Arm ARM, BFDotAdd and
// BFMatMulAdd, with FPCR.EBF at 0, as Linux starts a process). So a sum is the same chain in every tile.
#pragma once

#include "kernels/cpu/gemm/neon_i8mm/matrix_tile.h"

namespace dunlin::kernels::cpu::neon_bf16 {
namespace {

using neon::Lanes;
using neon::Quarter;

struct PairMatrices {
  // -0: whatever its sign, a zero plus -0 is itself.
  static constexpr uint32_t kFiller = 0x80008000;
  DUNLIN_INLINE float32x4_t Multiply(float32x4_t sums, float32x4_t activations, float32x4_t weights) {
    __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sums) : "w"(activations), "w"(weights));
    return sums;
  }
};

template <typename PanelOfPairs>
struct PairProducts {
  struct Multiply {
    DUNLIN_INLINE Lanes::Floats Add(Lanes::Floats sum, Lanes::Factor a, Lanes::Floats w) {
      return {AddHalf(sum.low, a, w.low), AddHalf(sum.high, a, w.high)};
    }

   private:
    DUNLIN_INLINE Lanes::Half::Floats AddHalf(Lanes::Half::Floats sum, Lanes::Factor a, Lanes::Half::Floats w) {
      return {AddQuarter(sum.low, a, w.low), AddQuarter(sum.high, a, w.high)};
    }
    // By the lane of a register that a scalar load fills (Quarter::Accumulate).
    DUNLIN_INLINE float32x4_t AddQuarter(float32x4_t sum, float a, float32x4_t w) {
      __asm__("bfdot %0.4s, %1.8h, %2.2h[0]" : "+w"(sum) : "w"(w), "w"(a));
      return sum;
    }
  };
  using Panel = PanelOfPairs;
  using SlicePanel = neon_i8mm::MatrixPanel<PairMatrices>;
  using Widen = neon_i8mm::ToOperands<Panel>;
  static constexpr int64_t kStepDepth = 2;
  static constexpr int kSmallMRows = 8;
  static constexpr int kMaxSmallM = 0;
  static constexpr int kMaxBlockScaledM = 0;
  static constexpr simd::Locality kLocality = simd::kIntoL1;
  static constexpr bool kGrouped = false;
  static constexpr bool kIntegers = false;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon_bf16
