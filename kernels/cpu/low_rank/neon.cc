// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/low_rank/vector.h"
#include "kernels/cpu/simd/lanes_neon.h"

namespace dunlin::kernels::cpu {

// Sixteen lanes are four registers of thirty-two.
constinit const LowRankKernels kNeonLowRank = simd::LowRankKernelsOf<neon::Lanes, 2, 2, 2>();

}  // namespace dunlin::kernels::cpu
