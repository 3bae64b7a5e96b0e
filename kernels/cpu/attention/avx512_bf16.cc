// AVX-512 tiles of BF16 pages: K [D/2][16 tokens][2], V [8 token pairs][D][2]. A lane holds a pair: two dimensions of a
// key, or two keys of a dimension. Two tables: the pair widened to two FP32 products, or multiplied by the BF16 dot
// product (dpbf16: FP32 sums, denormals are zeros), which needs P in BF16.
// Instantiations: 2 x 6 score kernels, 2 x 24 value kernels.
#include "kernels/cpu/attention/avx512_f32_step.h"
#include "kernels/cpu/attention/avx512_table.h"

namespace dunlin::kernels::cpu {
namespace {

// Where the value pairs lie, for both ways of multiplying them.
struct PairBlock {
  static constexpr int kTokens = 16;
  static constexpr int64_t kDimBytes = 4;
  DUNLIN_STEP int64_t StepBytes(int head_dim) { return (head_dim + 1) / 2 * int64_t{8}; }
};

DUNLIN_STEP __m512i LoadKeyPairs(const std::byte* const* blocks, int vector, int64_t step) {
  return _mm512_load_si512(blocks[vector] + step * 64);
}
DUNLIN_STEP __m512i LoadValuePairs(const std::byte* step, int vector, __mmask16 mask) {
  return _mm512_maskz_loadu_epi32(mask, step + 64 * vector);
}

// The first of a pair is its low half.
DUNLIN_STEP __m512 Widen(__m512i pairs, int part) {
  return _mm512_castsi512_ps(part == 0 ? _mm512_slli_epi32(pairs, 16)
                                       : _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

struct WideKeys : avx512::F32Step {
  static constexpr int kParts = 2;
  DUNLIN_STEP int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_STEP __m512 Load(const std::byte* const* blocks, int vector, int64_t step, int part) {
    return Widen(LoadKeyPairs(blocks, vector, step), part);
  }
};

struct WideValues : avx512::F32Step, PairBlock {
  static constexpr int kKeys = 2;
  static constexpr int kParts = 2;
  DUNLIN_STEP __m512 Load(const std::byte* step, int part, int vector, __mmask16 mask) {
    return Widen(LoadValuePairs(step, vector, mask), part);
  }
};

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
    return (__m512bh)LoadKeyPairs(blocks, vector, step);
  }
};

struct DotValues : DotStep, PairBlock {
  DUNLIN_STEP __m512bh Load(const std::byte* step, int /*part*/, int vector, __mmask16 mask) {
    return (__m512bh)LoadValuePairs(step, vector, mask);
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

}  // namespace

const TileOps kAvx512Bf16Tiles = avx512::TilesOf<WideKeys, WideValues, WideValues>();
const TileOps kAvx512Bf16DotTiles = avx512::TilesOf<DotKeys, DotValues, WideValues>();

}  // namespace dunlin::kernels::cpu
