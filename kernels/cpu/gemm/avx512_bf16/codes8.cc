// SPDX-License-Identifier: Apache-2.0
// Products of the 8-bit codes of quantised checkpoints.
#include "kernels/cpu/gemm/avx512_bf16/integers.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

using Q8 = Grouped<simd::CodesToPairs<Lanes, FullInt8ByLookup>, simd::HalfScales<Lanes>, 0>;
using Q8Wide = Grouped<simd::CodesToPairs<Lanes, FullInt8ByLookup>, simd::WideScales<Lanes>, 0>;

}  // namespace

void GemmQ8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q8>::Run(block);
}
void GemmQ8Wide(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Q8Wide>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
