// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent layers in plain C++ for any processor: lanes are loops, which the compiler vectorises.
#include "kernels/cpu/recurrent/vector.h"
#include "kernels/cpu/simd/loop_lanes.h"

namespace dunlin::kernels::cpu {

constinit const RecurrentKernels kPortableRecurrent = simd::RecurrentKernelsOf<simd::LoopLanes, 1>();

}  // namespace dunlin::kernels::cpu
