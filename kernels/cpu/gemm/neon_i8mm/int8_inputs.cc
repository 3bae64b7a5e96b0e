// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/neon_i8mm/byte_matrix.h"

const dunlin::kernels::cpu::Int8GemmKernels dunlin::kernels::cpu::neon_i8mm::kInt8Kernels =
    MakeInt8Kernels<MatrixProducts>();
