// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/neon_dot/byte_dot.h"

const dunlin::kernels::cpu::Int8GemmKernels dunlin::kernels::cpu::neon_dot::kInt8Kernels =
    MakeInt8Kernels<DotProducts<float>>();
