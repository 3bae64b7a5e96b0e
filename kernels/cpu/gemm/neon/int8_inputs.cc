// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/byte_products.h"
#include "kernels/cpu/simd/lanes_neon.h"

const dunlin::kernels::cpu::Int8GemmKernels dunlin::kernels::cpu::neon::kInt8Kernels =
    MakeInt8Kernels<simd::PairedProducts<Lanes>>();
