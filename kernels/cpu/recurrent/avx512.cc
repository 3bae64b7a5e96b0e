// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/recurrent/vector.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu {

constinit const RecurrentKernels kAvx512Recurrent = simd::RecurrentKernelsOf<avx512::Lanes, 2>();

}  // namespace dunlin::kernels::cpu
