// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_neon.h"

void dunlin::kernels::cpu::neon::GemmFp16(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Fp16<Lanes>>::Run(block);
}
