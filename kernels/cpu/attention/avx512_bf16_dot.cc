// AVX-512 tiles of BF16 pages, the pairs multiplied by the BF16 dot product (dpbf16: FP32 sums, denormals are zeros),
// which needs P in BF16. MATH's P is FP32, so its values are widened (avx512_pairs.h).
// Instantiations: 6 score kernels, 2 x 24 value kernels.
#include "kernels/cpu/attention/avx512_pairs.h"
#include "kernels/cpu/attention/avx512_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct DotStep {
  using P = uint16_t;
  using Vector = __m512bh;
  static constexpr int kKeys = 2;
  static constexpr int kParts = 1;
  DUNLIN_STEP __m512bh Broadcast(const void* pair) {
    return (__m512bh)_mm512_set1_epi32(*static_cast<const int32_t*>(pair));
  }
  // A sum of products and a vector of values as they are: no scale per token.
  DUNLIN_STEP __m512 ScaleSum(const std::byte* const* /*blocks*/, int /*vector*/, int /*head_dim*/, __m512 sum) {
    return sum;
  }
  DUNLIN_STEP Vector ScaleValue(const std::byte* /*block*/, int64_t /*slot*/, int /*head_dim*/, Vector value) {
    return value;
  }
  DUNLIN_STEP __m512 MultiplyAdd(__m512 sum, __m512bh a, __m512bh b) { return _mm512_dpbf16_ps(sum, a, b); }
};

struct DotKeys : DotStep {
  DUNLIN_STEP int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_STEP __m512bh Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return (__m512bh)avx512::LoadKeyPairs(blocks, vector, step);
  }
};

struct DotValues : DotStep, avx512::PairBlock {
  DUNLIN_STEP __m512bh Load(const std::byte* step, int /*part*/, int vector, __mmask16 mask) {
    return (__m512bh)avx512::LoadValuePairs(step, vector, mask);
  }
  DUNLIN_STEP __m512bh FirstKey(__m512bh pairs) {
    return (__m512bh)_mm512_and_si512((__m512i)pairs, _mm512_set1_epi32(0xFFFF));
  }
  DUNLIN_STEP __m512bh LastKey(__m512bh pairs) {
    return (__m512bh)_mm512_and_si512((__m512i)pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
  }
  DUNLIN_STEP void Store(uint16_t* p, __m512 e) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(e));
  }
};

struct WideValues : avx512::WidePairValues {};

}  // namespace

const TileOps kAvx512Bf16DotTiles = avx512::TilesOf<DotKeys, DotValues, WideValues>();

}  // namespace dunlin::kernels::cpu
