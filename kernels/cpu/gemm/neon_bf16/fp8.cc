// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/neon_bf16/products.h"

namespace dunlin::kernels::cpu::neon_bf16 {
namespace {

struct Fp8 : PairProducts<simd::CodesToPairs<Lanes, simd::E4M3ByShuffle<Lanes>>> {
  static constexpr int kMaxBlockScaledM = 4;
};

}  // namespace

void GemmFp8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Fp8>::Run(block);
}

}  // namespace dunlin::kernels::cpu::neon_bf16
