// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit integer codes in groups.
#include "kernels/cpu/gemm/neon_bf16/integers.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::neon_bf16::kIntegers8Kernels =
    MakeGemmKernels<GroupedProducts, HasIntegersOf<8>>();
