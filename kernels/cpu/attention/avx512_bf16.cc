// AVX-512 tiles of BF16 pages, the pairs widened to FP32 (avx512_pairs.h).
// Instantiations: 6 score kernels, 24 value kernels.
#include "kernels/cpu/attention/avx512_pairs.h"
#include "kernels/cpu/attention/avx512_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : avx512::F32Step {
  static constexpr int kParts = 2;
  DUNLIN_STEP int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_STEP __m512 Load(const std::byte* const* blocks, int vector, int64_t step, int part) {
    return avx512::WidenPairs(avx512::LoadKeyPairs(blocks, vector, step), part);
  }
};

struct Values : avx512::WidePairValues {};

}  // namespace

const TileOps kAvx512Bf16Tiles = avx512::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
