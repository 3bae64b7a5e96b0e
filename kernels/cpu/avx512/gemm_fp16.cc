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

// A row's value is read by the product itself, as MultiplyBf16PairFromMemory does.
struct MultiplyFloatFromMemory : vector::MultiplyFloat<Lanes> {
  static constexpr bool kFromMemory = true;
  DUNLIN_LANE __m512 AddFrom(__m512 sum, const std::byte* a, __m512 w) {
    const vector::AliasedFloat& value = *reinterpret_cast<const vector::AliasedFloat*>(a);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // which do not see what an asm reads
    return Add(sum, _mm512_set1_ps(value), w);
#else
    asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(value));
    return sum;
#endif
  }
};

// For processors that widen weights beside products (Zen 4).
struct Fp16BesideProducts : Fp16 {
  using Multiply = MultiplyFloatFromMemory;
};

}  // namespace

void GemmFp16(const GemmBlock& block) {
  vector::GemmOf<Lanes, Fp16>::Run(block);
}
void GemmFp16AskL2(const GemmBlock& block) {
  vector::GemmOf<L2Lanes, Fp16BesideProducts>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
