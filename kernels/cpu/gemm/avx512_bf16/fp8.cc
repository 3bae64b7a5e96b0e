// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/avx512_bf16/products.h"
#include "kernels/cpu/simd/e4m3_avx512_vbmi.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

template <simd::Locality kTarget>
struct Fp8 : PairProducts<kTarget> {
  using Panel = simd::CodesToPairs<Lanes, avx512::E4M3ByLookup>;
  using Widen = Panel;
  static constexpr int kMaxSmallM = 48;
  static constexpr int kMaxBlockScaledM = 4;
};

// For Zen 4, which looks codes up beside products where no load stands in the way: a line of codes is read once, where
// the compiler would read it again for every table, and no pair of a row takes a register. FP8 with 8 to 32 rows is 4%
// faster.
struct CodesReadOnce {
  DUNLIN_INLINE void Widen(const std::byte* at, __m512i& first, __m512i& second) {
    __m512i codes = _mm512_loadu_si512(at);
    asm("" : "+v"(codes));
    avx512::LookUpCodes(codes, first, second);
  }
};
struct Fp8BesideProducts : Fp8<simd::kIntoL2> {
  struct Multiply : PairProducts<simd::kIntoL2>::Multiply {
    static constexpr bool kFromMemory = true;
    DUNLIN_INLINE __m512 AddFrom(__m512 sum, const simd::AliasedFloat& pair, __m512 w) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // they do not see what an asm reads
      return Add(sum, _mm512_set1_ps(pair), w);
#else
      asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(pair));
      return sum;
#endif
    }
  };
  using Panel = simd::CodesToPairs<Lanes, CodesReadOnce>;
  using Widen = Panel;
};

}  // namespace

void GemmFp8(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Fp8<simd::kIntoL1>>::Run(block);
}
void GemmFp8L2(const GemmBlock& block) {
  simd::VectorGemm<Lanes, Fp8BesideProducts>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512_bf16
