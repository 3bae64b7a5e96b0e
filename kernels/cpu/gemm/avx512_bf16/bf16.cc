// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/avx512_bf16/products.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

// Panels are dense as they lie in memory.
template <simd::Locality kTarget>
struct Bf16 : PairProducts<kTarget> {
  using Panel = typename PairProducts<kTarget>::SlicePanel;
};

}  // namespace

void GemmBf16(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Bf16<simd::kIntoL1>>::Run(block);
}
void GemmBf16L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Bf16<simd::kIntoL2>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
