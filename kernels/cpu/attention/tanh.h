// SPDX-License-Identifier: Apache-2.0
// tanh in FP32, used by every variant: below kTanhSmall the odd polynomial x + x^3 P(x^2), minimax by Remez for
// relative error; above it 1 - 2 / (2^(2 log2(e) x) + 1). Largest relative error of both variants over FP32
// numbers: 1.3e-7 (a bit over 1 ulp).
#pragma once

namespace dunlin::kernels::cpu {

inline constexpr float kTanhSmall = 0.9F;
inline constexpr float kTanhCoefficients[6] = {-0.3333321213722229F, 0.13330359756946564F,   -0.05372149124741554F,
                                               0.02090412564575672F, -0.006860054563730955F, 0.001303959172219038F};
inline constexpr float kTanhExponent = 2.885390082F;  // 2 log2(e)
inline constexpr float kTanhLargest = 9.5F;           // tanh of more is 1 in FP32

}  // namespace dunlin::kernels::cpu
