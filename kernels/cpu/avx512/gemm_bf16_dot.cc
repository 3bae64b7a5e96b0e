// BF16 weights through the BF16 dot product, as they lie in the panel.
#include "kernels/cpu/avx512/bf16_dot.h"
#include "kernels/cpu/avx512/gemm_block.h"
#include "kernels/cpu/avx512/kernels.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct Bf16Dot {
  using Multiply = MultiplyBf16Pair;
  using Panel = DensePanel;
  static constexpr bool kDecodes = false;
  static constexpr int64_t kStepDepth = 2;
  static constexpr int kNarrowRows = 8;
};

}  // namespace

void GemmBf16Dot(const GemmBlock& block) {
  GemmBlockOf<Bf16Dot>(block);
}

}  // namespace dunlin::kernels::cpu::avx512
