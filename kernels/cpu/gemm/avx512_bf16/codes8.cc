// SPDX-License-Identifier: Apache-2.0
// Products of the 8-bit codes of quantised checkpoints.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

template <simd::Locality kTarget>
using Q8 = Grouped<kTarget, simd::CodesToPairs<Lanes, FullInt8ByLookup>, simd::HalfScales<Lanes>, 0>;
template <simd::Locality kTarget>
using Q8Wide = Grouped<kTarget, simd::CodesToPairs<Lanes, FullInt8ByLookup>, simd::WideScales<Lanes>, 0>;

}  // namespace

void GemmQ8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q8<simd::kIntoL1>>::Run(block);
}
void GemmQ8L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q8<simd::kIntoL2>>::Run(block);
}
void GemmQ8Wide(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q8Wide<simd::kIntoL1>>::Run(block);
}
void GemmQ8WideL2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q8Wide<simd::kIntoL2>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
