// BF16 weights widen to floats, exactly, for FMA. On processors with a half-rate BF16 dot product this is twice as fast
// for many rows.
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/avx512/pairs.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct PairPanel {
  static constexpr int kSteps = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[2]) {
    const __m512i pairs = _mm512_loadu_si512(at);
    weights[0] = FirstOfPairs(pairs);
    weights[1] = SecondOfPairs(pairs);
  }
};

struct Bf16 {
  using Multiply = vector::MultiplyFloat<Lanes>;
  using Panel = PairPanel;
  static constexpr bool kDense = false;
  static constexpr bool kScaled = false;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
};

}  // namespace

void GemmBf16Fma(const GemmBlock& block) {
  vector::GemmOf<Lanes, Bf16>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
