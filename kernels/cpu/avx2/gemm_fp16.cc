// FP16 weights widen to FP32 exactly; the products are FP32.
#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/avx2/lanes.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

struct HalfPanel {
  static constexpr int kSteps = 1;
  static constexpr int64_t kVectorBytes = 32;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[1]) { weights[0] = DecodeStep(at, 0); }
  DUNLIN_LANE Lanes::Floats DecodeStep(const std::byte* at, int) {
    const auto* halves = reinterpret_cast<const __m128i*>(at);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
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

}  // namespace dunlin::kernels::cpu::avx2
