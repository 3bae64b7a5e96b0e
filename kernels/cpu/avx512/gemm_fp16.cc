// FP16 weights widen to FP32 exactly; the products are FP32.
#include "kernels/cpu/avx512/gemm_block.h"
#include "kernels/cpu/avx512/kernels.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct HalfPanel {
  static constexpr int kSteps = 1;
  static constexpr int64_t kBytes = 96;
  DUNLIN_LANE void Decode(const std::byte* at, __m512 (&weights)[1][kVectors]) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      weights[0][v] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + v * 32)));
    }
  }
};

struct Fp16 {
  using Multiply = MultiplyFloat;
  using Panel = HalfPanel;
  static constexpr bool kDecodes = true;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
};

}  // namespace

void GemmFp16(const GemmBlock& block) {
  GemmBlockOf<Fp16>(block);
}

}  // namespace dunlin::kernels::cpu::avx512
