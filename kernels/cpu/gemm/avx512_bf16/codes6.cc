// SPDX-License-Identifier: Apache-2.0
// Products of the 6-bit codes of quantised checkpoints.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

// Fewer rows to a tile: eight decoded pairs take registers beside the sums.
template <simd::Locality kTarget, WeightFormat kFormat>
struct Grouped6 : Grouped<kTarget, Int6Pairs, simd::SuperScales<Lanes, kFormat>, 8> {
  static constexpr int kNarrowRows = 4;
};
template <simd::Locality kTarget>
using Q6Super = Grouped6<kTarget, WeightFormat::kQ6Super>;
template <simd::Locality kTarget>
using Q6Min = Grouped6<kTarget, WeightFormat::kQ6Min>;

}  // namespace

void GemmQ6Super(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q6Super<simd::kIntoL1>>::Run(block);
}
void GemmQ6SuperL2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q6Super<simd::kIntoL2>>::Run(block);
}
void GemmQ6Min(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q6Min<simd::kIntoL1>>::Run(block);
}
void GemmQ6MinL2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q6Min<simd::kIntoL2>>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
