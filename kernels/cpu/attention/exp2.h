// 2^x by a degree-5 polynomial on [-1/2, 1/2]: minimax coefficients by Remez for relative error, c0 set to 1 so that
// 2^0 is exact; largest error 2.0e-7 (1.7 ulp) evaluated in FP32. Below 2^-126 the result is 0. Used by every variant.
#pragma once

namespace dunlin::kernels::cpu {

inline constexpr float kExp2Coefficients[6] = {1.0F,          0.693146944F,   0.240221202F,
                                               0.0555071309F, 0.00967554096F, 0.00132764725F};
inline constexpr float kExp2Smallest = -126.0F;

}  // namespace dunlin::kernels::cpu
