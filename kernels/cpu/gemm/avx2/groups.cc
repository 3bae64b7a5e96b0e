// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_avx2.h"

void dunlin::kernels::cpu::avx2::GemmInt8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Int8<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx2::GemmInt4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Int4<Lanes>>::Run(block);
}
