// AVX-512 tiles of E4M3 pages: K [d][32 tokens], V [32 tokens][d], one FP32 scale per token behind the codes
// (kv_block.h). Codes widen exactly: as FP16 bits a code is its value times 2^-8, denormals too, and the 2^8 joins the
// scale. A key's scale multiplies its finished score, a value's scale the widened value. (The NaN code widens to 480;
// a token that held a NaN has a scale that is not finite, so that it shows.)
// Instantiations: 6 score kernels, 24 value kernels.
#include "kernels/cpu/attention/avx512_f32_step.h"
#include "kernels/cpu/attention/avx512_table.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int64_t kPageTokens = 32;
constexpr float kWidening = 256.0F;

// Behind the codes of a block whose rows have head_dim elements: kv_block.h.
DUNLIN_STEP const float* Scales(const std::byte* block, int head_dim) {
  return reinterpret_cast<const float*>(block + (head_dim + 1) / 2 * 2 * kPageTokens);
}

// Sign-extended to 16 bits and moved up by 7, a code has its exponent and fraction where FP16 has them, and two copies
// of its sign.
DUNLIN_STEP __m512 Widen(__m128i codes) {
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  return _mm512_cvtph_ps(_mm256_and_si256(moved, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF))));
}

struct Keys : avx512::F32Step {
  static int64_t Steps(int head_dim) { return head_dim; }
  DUNLIN_STEP __m512 Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    const std::byte* codes = blocks[vector / 2] + step * kPageTokens + vector % 2 * 16;
    return Widen(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  DUNLIN_STEP __m512 ScaleSum(const std::byte* const* blocks, int vector, int head_dim, __m512 sum) {
    const __m512 scales = _mm512_loadu_ps(Scales(blocks[vector / 2], head_dim) + vector % 2 * 16);
    return _mm512_mul_ps(sum, _mm512_mul_ps(scales, _mm512_set1_ps(kWidening)));
  }
};

struct Values : avx512::F32Step {
  static constexpr int kTokens = kPageTokens;
  static constexpr int64_t kDimBytes = 1;
  DUNLIN_STEP int64_t StepBytes(int head_dim) { return head_dim; }
  DUNLIN_STEP __m512 Load(const std::byte* step, int /*part*/, int vector, __mmask16 mask) {
    return Widen(_mm_maskz_loadu_epi8(mask, step + 16 * vector));
  }
  DUNLIN_STEP __m512 ScaleValue(const std::byte* block, int64_t slot, int head_dim, __m512 value) {
    return _mm512_mul_ps(value, _mm512_set1_ps(Scales(block, head_dim)[slot] * kWidening));
  }
};

}  // namespace

const TileOps kAvx512F8Tiles = avx512::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
