// SPDX-License-Identifier: Apache-2.0
// Products of the 6-bit codes of quantised checkpoints.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

// Fewer rows to a tile: eight decoded pairs take registers beside the sums.
template <WeightFormat kFormat>
struct Grouped6 : Grouped<Int6Pairs, simd::SuperScales<Lanes, kFormat>, 8> {
  static constexpr int kSmallMRows = 4;
};
using Q6Super = Grouped6<WeightFormat::kQ6Super>;
using Q6Min = Grouped6<WeightFormat::kQ6Min>;

}  // namespace

void GemmQ6Super(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q6Super>::Run(block);
}
void GemmQ6Min(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q6Min>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
