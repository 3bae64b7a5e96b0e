// FP8 weights, widened to BF16 pairs and on to floats in registers: see e4m3_codes.h.
#include "kernels/cpu/avx512/e4m3_codes.h"
#include "kernels/cpu/avx512/gemm_block.h"
#include "kernels/cpu/avx512/kernels.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct CodesToFloats {
  static constexpr int kSteps = 4;
  static constexpr int64_t kBytes = 192;
  static constexpr int64_t kDepth = 4;
  DUNLIN_LANE void Decode(const std::byte* at, __m512 (&weights)[4][kVectors]) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      __m512i first;
      __m512i second;
      WidenCodes(at + v * 64, first, second);
      WidenPairs(first, weights[0][v], weights[1][v]);
      WidenPairs(second, weights[2][v], weights[3][v]);
    }
  }
};

struct Fp8Fma {
  using Multiply = MultiplyFloat;
  using Panel = CodesToFloats;
  static constexpr bool kDecodes = true;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 4;
};

}  // namespace

void GemmFp8Fma(const GemmBlock& block) {
  GemmBlockOf<Fp8Fma>(block);
}

}  // namespace dunlin::kernels::cpu::avx512
