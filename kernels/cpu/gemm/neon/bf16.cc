// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_neon.h"

void dunlin::kernels::cpu::neon::GemmBf16(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Bf16<Lanes>>::Run(block);
}
