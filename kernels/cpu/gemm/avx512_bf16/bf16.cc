// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/avx512_bf16/products.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

// Panels are dense as they lie in memory.
struct Bf16 : PairProducts {
  using Panel = SlicePanel;
};

}  // namespace

void GemmBf16(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Bf16>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
