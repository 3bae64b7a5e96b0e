// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/low_rank/vector.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu {

constinit const LowRankKernels kAvx512LowRank = simd::LowRankKernelsOf<avx512::Lanes, 4, 4, 4>();

}  // namespace dunlin::kernels::cpu
