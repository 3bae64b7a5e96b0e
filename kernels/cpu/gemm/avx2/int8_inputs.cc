// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/byte_products.h"
#include "kernels/cpu/simd/lanes_avx2.h"

const dunlin::kernels::cpu::Int8GemmKernels dunlin::kernels::cpu::avx2::kInt8Kernels =
    MakeInt8Kernels<simd::PairedProducts<Lanes>>();
