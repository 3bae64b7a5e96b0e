// BF16 weights widen to floats, exactly, for FMA.
#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/lanes.h"
#include "kernels/cpu/avx2/pairs.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

struct Bf16 {
  using Multiply = vector::MultiplyFloat<Lanes>;
  using Panel = PairPanel;
  using SlicePanel = Panel;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
  static constexpr int kRepeatedRows = 0;
  static constexpr int kScaledRows = 0;
};

}  // namespace

void GemmBf16(const GemmBlock& block) {
  vector::GemmOf<Lanes, Bf16>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx2
