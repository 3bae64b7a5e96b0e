// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit codes of a table.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

const dunlin::kernels::cpu::GemmKernelArray dunlin::kernels::cpu::avx512_bf16::kLevelKernels =
    MakeGemmKernels<GroupedProducts, HasLevels>();
