// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/recurrent/vector.h"
#include "kernels/cpu/simd/lanes_avx2.h"

namespace dunlin::kernels::cpu {

constinit const RecurrentKernels kAvx2Recurrent = simd::RecurrentKernelsOf<avx2::Lanes, 1>();

}  // namespace dunlin::kernels::cpu
