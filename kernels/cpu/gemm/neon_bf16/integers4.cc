// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit integer codes in groups.
#include "kernels/cpu/gemm/neon_bf16/integers.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::neon_bf16::kIntegers4Kernels =
    MakeGemmKernels<GroupedProducts, HasIntegersOf<4>>();
