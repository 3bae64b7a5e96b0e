// AVX-512 tiles of BF16 pages: K [D/2][16 tokens][2], V [8 token pairs][D][2], both operands of the BF16 dot product
// (dpbf16: two products per lane, FP32 sums, denormals are zeros). MATH's P stays FP32, its V is widened.
// Instantiations: 6 score kernels, 2 x 24 value kernels.
#include "kernels/cpu/attention/avx512_f32_step.h"
#include "kernels/cpu/attention/avx512_softmax.h"
#include "kernels/cpu/attention/avx512_tiles.h"

namespace dunlin::kernels::cpu {
namespace {

// Two dimensions, or two keys, a step.
struct PairStep {
  using P = uint16_t;
  using Vector = __m512bh;
  static constexpr int kKeys = 2;
  static constexpr int kTokens = 16;
  DUNLIN_STEP __m512bh Broadcast(const void* pair) {
    return (__m512bh)_mm512_set1_epi32(*static_cast<const int32_t*>(pair));
  }
  DUNLIN_STEP __m512 MultiplyAdd(__m512 sum, __m512bh a, __m512bh b) { return _mm512_dpbf16_ps(sum, a, b); }
};

struct Keys : PairStep {
  static int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_STEP __m512bh Load(const std::byte* const* blocks, int vector, int64_t step) {
    return (__m512bh)_mm512_load_si512(blocks[vector] + step * 64);
  }
};

struct PairValues : PairStep {
  DUNLIN_STEP const uint32_t* Start(const std::byte* block, int /*head_dim*/, int dim) {
    return reinterpret_cast<const uint32_t*>(block) + dim;
  }
  DUNLIN_STEP __m512bh Load(const uint32_t* start, int slot, int head_dim, int vector, __mmask16 mask) {
    const int64_t padded_dim = (head_dim + 1) / 2 * 2;
    return (__m512bh)_mm512_maskz_loadu_epi32(mask, start + slot / 2 * padded_dim + 16 * vector);
  }
  DUNLIN_STEP __m512bh FirstKey(__m512bh values) {
    return (__m512bh)_mm512_and_si512((__m512i)values, _mm512_set1_epi32(0xFFFF));
  }
  DUNLIN_STEP void Store(uint16_t* p, __m512 e) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(e));
  }
};

struct WideValues : avx512::F32Step {
  static constexpr int kTokens = 16;
  DUNLIN_STEP const uint32_t* Start(const std::byte* block, int head_dim, int dim) {
    return PairValues::Start(block, head_dim, dim);
  }
  // The even token of a pair is its low half, the odd one its high half.
  DUNLIN_STEP __m512 Load(const uint32_t* start, int slot, int head_dim, int vector, __mmask16 mask) {
    const __m512i pair = (__m512i)PairValues::Load(start, slot, head_dim, vector, mask);
    const __m512i high = _mm512_sll_epi32(pair, _mm_cvtsi32_si128(slot % 2 == 0 ? 16 : 0));
    return _mm512_castsi512_ps(_mm512_and_si512(high, _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000U))));
  }
};

}  // namespace

const TileOps kAvx512Bf16Tiles = {true,
                                  avx512::Scores<Keys>,
                                  avx512::RunningSoftmax<PairValues>,
                                  avx512::ChunkSoftmax<PairValues>,
                                  avx512::FullSoftmax<WideValues>,
                                  avx512::Values<PairValues>,
                                  avx512::Values<WideValues>,
                                  avx512::Merge<PairValues>};

}  // namespace dunlin::kernels::cpu
