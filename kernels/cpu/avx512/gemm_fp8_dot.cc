// FP8 weights, widened to BF16 pairs in registers (e4m3_lookup.h), multiplied by the BF16 dot product.
#include "kernels/cpu/avx512/bf16_dot.h"
#include "kernels/cpu/avx512/e4m3_lookup.h"
#include "kernels/cpu/avx512/gemm_block.h"
#include "kernels/cpu/avx512/kernels.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct CodesToPairs {
  static constexpr int kSteps = 2;
  static constexpr int64_t kBytes = 192;
  static constexpr int64_t kDepth = 4;
  DUNLIN_LANE void Decode(const std::byte* at, __m512 (&weights)[2][kVectors]) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      __m512i first;
      __m512i second;
      LookUpCodes(at + v * 64, first, second);
      weights[0][v] = _mm512_castsi512_ps(first);
      weights[1][v] = _mm512_castsi512_ps(second);
    }
  }
};

struct Fp8Dot {
  using Multiply = MultiplyBf16Pair;
  using Panel = CodesToPairs;
  static constexpr bool kDecodes = true;
  static constexpr int64_t kStepDepth = 2;
  static constexpr int kNarrowRows = 4;
};

}  // namespace

void GemmFp8Dot(const GemmBlock& block) {
  GemmBlockOf<Fp8Dot>(block);
}

}  // namespace dunlin::kernels::cpu::avx512
