// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit integer codes in groups.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::avx512_bf16::kIntegers4Kernels =
    MakeGemmKernels<GroupedProducts, HasIntegersOf<4>>();
