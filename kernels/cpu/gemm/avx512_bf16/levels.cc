// SPDX-License-Identifier: Apache-2.0
// Products of 4-bit codes of a table.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

template <WeightFormat kFormat>
using Levels = Grouped<Int4Pairs<kLevelWords<Traits(kFormat).levels>>, simd::FloatSuperScales<Lanes, kFormat>, 256>;

}  // namespace

void GemmIq2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Levels<WeightFormat::kIq2>>::Run(block);
}
void GemmIq3(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Levels<WeightFormat::kIq3>>::Run(block);
}
void GemmOdd(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Levels<WeightFormat::kOdd>>::Run(block);
}
void GemmOddFine(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Levels<WeightFormat::kOddFine>>::Run(block);
}
void GemmIq4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Levels<WeightFormat::kIq4>>::Run(block);
}
void GemmE2M1(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Levels<WeightFormat::kE2M1>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
