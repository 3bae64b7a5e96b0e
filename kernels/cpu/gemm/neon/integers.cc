// SPDX-License-Identifier: Apache-2.0
// Products of integer codes in groups.
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_neon.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::neon::kIntegerKernels =
    MakeGemmKernels<simd::GroupedFloatProducts<Lanes>, HasIntegers>();
