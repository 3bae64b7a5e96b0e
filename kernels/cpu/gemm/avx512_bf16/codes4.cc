// SPDX-License-Identifier: Apache-2.0
// Products of the 4-bit codes of quantised checkpoints.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

using Q4 = Grouped<Int4Pairs<kNibbleWords<true>>, simd::HalfScales<Lanes>, 256>;
using Q4Zero = Grouped<Int4Pairs<kNibbleWords<true>>, simd::HalfZeroScales<Lanes>, 256>;
using Q4Super = Grouped<Int4Pairs<kNibbleWords<false>>, simd::SuperScales<Lanes, WeightFormat::kQ4Super>, 256>;

}  // namespace

void GemmQ4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4>::Run(block);
}
void GemmQ4Zero(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4Zero>::Run(block);
}
void GemmQ4Super(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q4Super>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
