// SPDX-License-Identifier: Apache-2.0
// Products of the codes of quantised checkpoints.
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_avx512.h"

void dunlin::kernels::cpu::avx512::GemmQ8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q8<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmQ4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q4<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmQ4Super(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q4Super<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmQ6Super(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q6Super<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmQ6Min(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q6Min<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmQ8Wide(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q8Wide<Lanes>>::Run(block);
}

void dunlin::kernels::cpu::avx512::GemmQ4Zero(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Q4Zero<Lanes>>::Run(block);
}
