// FP16 weights widen to FP32 exactly; the products are FP32.
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct HalfPanel {
  static constexpr int kSteps = 1;
  static constexpr int64_t kVectorBytes = 32;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[1]) { weights[0] = DecodeStep(at, 0); }
  DUNLIN_LANE Lanes::Floats DecodeStep(const std::byte* at, int) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
};

struct Fp16 {
  using Multiply = vector::MultiplyFloat<Lanes>;
  using Panel = HalfPanel;
  using SlicePanel = Panel;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
  static constexpr int kRepeatedRows = 0;
  static constexpr int kScaledRows = 0;
};

}  // namespace

void GemmFp16(const GemmBlock& block) {
  vector::GemmOf<Lanes, Fp16>::Run(block);
}
void GemmFp16AskL2(const GemmBlock& block) {
  vector::GemmOf<L2Lanes, Fp16>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
