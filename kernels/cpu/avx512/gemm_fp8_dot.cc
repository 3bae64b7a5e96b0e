// FP8 weights, widened to BF16 pairs in registers (e4m3_lookup.h), multiplied by the BF16 dot product.
#include "kernels/cpu/avx512/bf16_dot.h"
#include "kernels/cpu/avx512/e4m3_lookup.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/vector/gemm_block.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct CodesToPairs {
  static constexpr int kSteps = 2;
  static constexpr int kUnits = 2;  // as Widen
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[2]) {
    ToPairs(_mm512_loadu_si512(at), weights);
  }
  DUNLIN_LANE void ToPairs(__m512i codes, Lanes::Floats (&weights)[2]) {
    __m512i first;
    __m512i second;
    LookUpCodes(codes, first, second);
    weights[0] = _mm512_castsi512_ps(first);
    weights[1] = _mm512_castsi512_ps(second);
  }
};

struct Fp8 {
  using Multiply = MultiplyBf16Pair;
  using Panel = CodesToPairs;
  using SlicePanel = vector::DensePanel<Lanes>;
  using Widen = CodesToPairs;
  static constexpr int64_t kStepDepth = 2;
  static constexpr int kNarrowRows = 8;
  static constexpr int kRepeatedRows = 48;
  static constexpr int kScaledRows = 4;
};

// For processors that look codes up beside products (Zen 4), if no load stands in the way: each line of codes is read
// once, where the compiler would read it again for every table, and none of a row's pairs takes a register.
struct CodesReadOnce : CodesToPairs {
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[2]) {
    __m512i codes = _mm512_loadu_si512(at);
    asm("" : "+v"(codes));
    ToPairs(codes, weights);
  }
};
struct Fp8BesideProducts : Fp8 {
  using Multiply = MultiplyBf16PairFromMemory;
  using Panel = CodesReadOnce;
};

}  // namespace

void GemmFp8Dot(const GemmBlock& block) {
  vector::GemmOf<Lanes, Fp8>::Run(block);
}
void GemmFp8DotAskL2(const GemmBlock& block) {
  vector::GemmOf<L2Lanes, Fp8BesideProducts>::Run(block);
}

}  // namespace dunlin::kernels::cpu::avx512
