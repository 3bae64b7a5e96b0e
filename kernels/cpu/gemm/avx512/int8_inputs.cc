// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/byte_products.h"
#include "kernels/cpu/simd/lanes_avx512.h"

const dunlin::kernels::cpu::Int8GemmKernels dunlin::kernels::cpu::avx512::kInt8Kernels =
    MakeInt8Kernels<simd::PairedProducts<Lanes>>();
