// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/neon_bf16/products.h"

void dunlin::kernels::cpu::neon_bf16::GemmBf16(const GemmBlock& block) {
  simd::VectorGemm<Lanes, PairProducts<simd::DensePanel<Lanes>>>::Run(block);
}
