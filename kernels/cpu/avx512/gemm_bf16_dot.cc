// BF16 weights through the BF16 dot product, as they lie in the panel.
#include "kernels/cpu/avx512/bf16_dot.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct Bf16 {
  using Multiply = MultiplyBf16Pair;
  using Panel = vector::DensePanel<Lanes>;
  using SlicePanel = Panel;
  static constexpr int64_t kStepDepth = 2;
  static constexpr int kNarrowRows = 8;
  static constexpr int kRepeatedRows = 0;
  static constexpr int kScaledRows = 0;
};

}  // namespace

void GemmBf16Dot(const GemmBlock& block) {
  vector::GemmOf<Lanes, Bf16>::Run(block);
}
void GemmBf16DotAskL2(const GemmBlock& block) {
  vector::GemmOf<L2Lanes, Bf16>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
