// SPDX-License-Identifier: Apache-2.0
// 2^x by polynomials, minimax coefficients by Remez for relative error, c0 set to 1 so that 2^0 is exact. Below 2^-126
// the result is 0.
#pragma once

namespace dunlin::kernels::cpu {

// Degree 5 on [-1/2, 1/2]: largest error 2.0e-7 (1.7 ulp) evaluated in FP32. Used by every variant.
inline constexpr float kExp2Coefficients[6] = {1.0F,          0.693146944F,   0.240221202F,
                                               0.0555071309F, 0.00967554096F, 0.00132764725F};
// Degree 3 on [0, 1]: largest error 8.6e-5, a 23rd of the rounding to BF16 that follows.
inline constexpr float kExp2Bf16Coefficients[4] = {1.0F, 0.69511679F, 0.22764499F, 0.07706704F};
inline constexpr float kExp2Smallest = -126.0F;

}  // namespace dunlin::kernels::cpu
