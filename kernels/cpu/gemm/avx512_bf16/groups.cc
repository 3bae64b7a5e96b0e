// SPDX-License-Identifier: Apache-2.0
// Weights that were rounded to integers in groups.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

using Int8 = Grouped<simd::CodesToPairs<Lanes, Int8ByLookup>, simd::ScaleWords<Lanes, false>, 0>;
using Int4 = Grouped<Int4Pairs<kNibbleWords<true>>, simd::ScaleWords<Lanes, true>, 256>;

}  // namespace

void GemmInt8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int8>::Run(block);
}
void GemmInt4(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Int4>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
