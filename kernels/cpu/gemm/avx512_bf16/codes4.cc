// SPDX-License-Identifier: Apache-2.0
// Products of the 4-bit codes of quantised checkpoints.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

template <simd::Locality kTarget>
using Q4 = Grouped<kTarget, Int4Pairs<true>, simd::HalfScales<Lanes>, 256>;
template <simd::Locality kTarget>
using Q4Zero = Grouped<kTarget, Int4Pairs<true>, simd::HalfZeroScales<Lanes>, 256>;
template <simd::Locality kTarget>
using Q4Super = Grouped<kTarget, Int4Pairs<false>, simd::SuperScales<Lanes, WeightFormat::kQ4Super>, 256>;

}  // namespace

void GemmQ4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4<simd::kIntoL1>>::Run(block);
}
void GemmQ4L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4<simd::kIntoL2>>::Run(block);
}
void GemmQ4Zero(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4Zero<simd::kIntoL1>>::Run(block);
}
void GemmQ4ZeroL2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4Zero<simd::kIntoL2>>::Run(block);
}
void GemmQ4Super(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4Super<simd::kIntoL1>>::Run(block);
}
void GemmQ4SuperL2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4Super<simd::kIntoL2>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
