// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/low_rank/vector.h"
#include "kernels/cpu/simd/lanes_avx2.h"

namespace dunlin::kernels::cpu {

// Sixteen lanes are two registers of sixteen.
constinit const LowRankKernels kAvx2LowRank = simd::LowRankKernelsOf<avx2::Lanes, 2, 2, 2>();

}  // namespace dunlin::kernels::cpu
