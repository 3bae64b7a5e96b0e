// AVX-512 tiles of FP32 pages: K [d][8 tokens], V [8 tokens][d]. A vector of 16 keys comes from two pages.
// Instantiations: 6 score kernels, 24 value kernels.
#include "kernels/cpu/attention/avx512_f32_step.h"
#include "kernels/cpu/attention/avx512_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : avx512::F32Step {
  static int64_t Steps(int head_dim) { return head_dim; }
  DUNLIN_STEP __m512 Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    const __m256 low = _mm256_load_ps(reinterpret_cast<const float*>(blocks[2 * vector]) + step * 8);
    const __m256 high = _mm256_load_ps(reinterpret_cast<const float*>(blocks[2 * vector + 1]) + step * 8);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  }
};

struct Values : avx512::F32Step {
  static constexpr int kTokens = 8;
  static constexpr int64_t kDimBytes = 4;
  DUNLIN_STEP int64_t StepBytes(int head_dim) { return head_dim * int64_t{4}; }
  DUNLIN_STEP __m512 Load(const std::byte* step, int /*part*/, int vector, __mmask16 mask) {
    return _mm512_maskz_loadu_ps(mask, step + 64 * vector);
  }
};

}  // namespace

const TileOps kAvx512F32Tiles = avx512::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
