// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/recurrent/vector.h"
#include "kernels/cpu/simd/lanes_neon.h"

namespace dunlin::kernels::cpu {

constinit const RecurrentKernels kNeonRecurrent = simd::RecurrentKernelsOf<neon::Lanes, 1>();

}  // namespace dunlin::kernels::cpu
