// BF16 weights widen to floats, exactly, for FMA. On processors with a half-rate BF16 dot product this is twice as fast
// for many rows.
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/avx512/pairs.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
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

void GemmBf16Fma(const GemmBlock& block) {
  vector::GemmOf<Lanes, Bf16>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
