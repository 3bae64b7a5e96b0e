// SPDX-License-Identifier: Apache-2.0
// FP8 weights: each slice of a panel is widened to BF16 pairs in scratch, exactly, once for all rows of the block.
#include "kernels/cpu/gemm/amx/block.h"
#include "kernels/cpu/simd/e4m3_avx512_vbmi.h"

namespace dunlin::kernels::cpu::amx {
namespace {

struct Fp8Panels {
  static constexpr size_t kStepBytes = kTileDepth * kPanelColumns;
  static constexpr int64_t kPrefetchBytes = 4096;

  DUNLIN_INLINE const std::byte* Dense(const std::byte* panel, int64_t first_k, int64_t depth, std::byte* scratch) {
    const std::byte* codes = panel + first_k * kPanelColumns;
    for (int64_t group = 0; group < depth / 4; ++group) {  // 4 K: two rows of pairs
      std::byte* pairs = scratch + static_cast<size_t>(group) * 2 * kPairRowBytes;
      for (int v = 0; v < 3; ++v) {
        _mm_prefetch(codes + group * 4 * kPanelColumns + v * 64 + kPrefetchBytes, _MM_HINT_T0);
        __m512i first;
        __m512i second;
        avx512::LookUpCodes(_mm512_loadu_si512(codes + group * 4 * kPanelColumns + v * 64), first, second);
        _mm512_store_si512(pairs + v * 64, first);
        _mm512_store_si512(pairs + kPairRowBytes + v * 64, second);
      }
    }
    return scratch;
  }
};

}  // namespace

void GemmFp8(const GemmBlock& block) {
  GemmBlockOf<Fp8Panels>(block);
}

}  // namespace dunlin::kernels::cpu::amx
