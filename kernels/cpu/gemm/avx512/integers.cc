// SPDX-License-Identifier: Apache-2.0
// Products of integer codes in groups.
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_avx512.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::avx512::kIntegerKernels =
    MakeGemmKernels<simd::GroupedFloatProducts<Lanes>, HasIntegers>();
