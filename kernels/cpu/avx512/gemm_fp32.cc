#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct Fp32 {
  using Multiply = vector::MultiplyFloat<Lanes>;
  using Panel = vector::DensePanel<Lanes>;
  using SlicePanel = Panel;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
  static constexpr int kRepeatedRows = 0;
  static constexpr int kScaledRows = 0;
};

}  // namespace

void GemmFp32(const GemmBlock& block) {
  vector::GemmOf<Lanes, Fp32>::Run(block);
}
void GemmFp32AskL2(const GemmBlock& block) {
  vector::GemmOf<L2Lanes, Fp32>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
