// SPDX-License-Identifier: Apache-2.0
// Weights that were rounded to integers in groups.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

template <simd::Locality kTarget>
using Int8 = Grouped<kTarget, simd::CodesToPairs<Lanes, Int8ByLookup>, simd::ScaleWords<Lanes, false>, 0>;
template <simd::Locality kTarget>
using Int4 = Grouped<kTarget, Int4Pairs<true>, simd::ScaleWords<Lanes, true>, 256>;

}  // namespace

void GemmInt8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int8<simd::kIntoL1>>::Run(block);
}
void GemmInt8L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int8<simd::kIntoL2>>::Run(block);
}
void GemmInt4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int4<simd::kIntoL1>>::Run(block);
}
void GemmInt4L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int4<simd::kIntoL2>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
