// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_avx512.h"

void dunlin::kernels::cpu::avx512::GemmFp32(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Fp32<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmFp32L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Fp32<Lanes, simd::kIntoL2>>::Run(block);
}
