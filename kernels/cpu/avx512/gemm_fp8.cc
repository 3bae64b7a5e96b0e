// FP8 weights, widened to BF16 pairs and on to floats in registers: see e4m3_codes.h.
#include "kernels/cpu/avx512/e4m3_codes.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/avx512/pairs.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct CodesToFloats {
  static constexpr int kSteps = 4;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[4]) {
    __m512i first;
    __m512i second;
    WidenCodes(at, first, second);
    weights[0] = FirstOfPairs(first);
    weights[1] = SecondOfPairs(first);
    weights[2] = FirstOfPairs(second);
    weights[3] = SecondOfPairs(second);
  }
};

struct CodesToPairs {
  static constexpr int kUnits = 2;  // of pairs
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&pairs)[2]) {
    __m512i first;
    __m512i second;
    WidenCodes(at, first, second);
    pairs[0] = _mm512_castsi512_ps(first);
    pairs[1] = _mm512_castsi512_ps(second);
  }
};

struct Fp8 {
  using Multiply = vector::MultiplyFloat<Lanes>;
  using Panel = CodesToFloats;
  using SlicePanel = PairPanel;
  using Widen = CodesToPairs;
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 4;
  static constexpr int kRepeatedRows = 0;
  static constexpr int kScaledRows = 4;
};

}  // namespace

void GemmFp8Fma(const GemmBlock& block) {
  vector::GemmOf<Lanes, Fp8>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
