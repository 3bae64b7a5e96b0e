#include "kernels/cpu/avx512/gemm_block.h"
#include "kernels/cpu/avx512/kernels.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct Fp32 {
  using Multiply = MultiplyFloat;
  using Panel = DensePanel;
  static constexpr bool kDecodes = false;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
};

}  // namespace

void GemmFp32(const GemmBlock& block) {
  GemmBlockOf<Fp32>(block);
}

}  // namespace dunlin::kernels::cpu::avx512
