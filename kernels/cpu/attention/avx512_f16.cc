// AVX-512 tiles of FP16 pages: K [d][16 tokens], V [16 tokens][d], widened to FP32 on load (exact).
// Instantiations: 6 score kernels, 24 value kernels.
#include "kernels/cpu/attention/avx512_f32_step.h"
#include "kernels/cpu/attention/avx512_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : avx512::F32Step {
  static int64_t Steps(int head_dim) { return head_dim; }
  DUNLIN_STEP __m512 Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(blocks[vector]) + step));
  }
};

struct Values : avx512::F32Step {
  static constexpr int kTokens = 16;
  static constexpr int64_t kDimBytes = 2;
  DUNLIN_STEP int64_t StepBytes(int head_dim) { return head_dim * int64_t{2}; }
  DUNLIN_STEP __m512 Load(const std::byte* step, int /*part*/, int vector, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, step + 32 * vector));
  }
};

}  // namespace

const TileOps kAvx512F16Tiles = avx512::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
