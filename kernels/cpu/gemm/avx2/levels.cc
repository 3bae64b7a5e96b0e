// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit codes of a table.
#include "kernels/cpu/gemm/vector/precisions.h"
#include "kernels/cpu/simd/lanes_avx2.h"

void dunlin::kernels::cpu::avx2::GemmIq2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Levels<Lanes, WeightFormat::kIq2>>::Run(block);
}

void dunlin::kernels::cpu::avx2::GemmIq3(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Levels<Lanes, WeightFormat::kIq3>>::Run(block);
}

void dunlin::kernels::cpu::avx2::GemmOdd(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Levels<Lanes, WeightFormat::kOdd>>::Run(block);
}

void dunlin::kernels::cpu::avx2::GemmOddFine(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Levels<Lanes, WeightFormat::kOddFine>>::Run(block);
}

void dunlin::kernels::cpu::avx2::GemmIq4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Levels<Lanes, WeightFormat::kIq4>>::Run(block);
}

void dunlin::kernels::cpu::avx2::GemmE2M1(const GemmBlock& block) {
  simd::VectorGemm<Lanes, simd::Levels<Lanes, WeightFormat::kE2M1>>::Run(block);
}
