// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit codes of a table.
#include "kernels/cpu/gemm/neon_bf16/integers.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::neon_bf16::kLevelKernels =
    MakeGemmKernels<GroupedProducts, HasLevels>();
