// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_avx2.h"

void dunlin::kernels::cpu::avx2::GemmBf16(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Bf16<Lanes>>::Run(block);
}
