// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/avx512_bf16/products.h"
#include "kernels/cpu/simd/e4m3_avx512_vbmi.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

struct Fp8 : PairProducts {
  using Panel = simd::CodesToPairs<Lanes, avx512::E4M3ByLookup>;
  using Widen = Panel;
  static constexpr int kRepeatedRows = 48;
  static constexpr int kScaledRows = 4;
};

}  // namespace

void GemmFp8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Fp8>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
