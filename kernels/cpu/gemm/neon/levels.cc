// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit codes of a table.
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_neon.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::neon::kLevelKernels =
    MakeGemmKernels<simd::GroupedFloatProducts<Lanes>, HasLevels>();
