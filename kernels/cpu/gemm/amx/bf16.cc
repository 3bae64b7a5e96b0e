// SPDX-License-Identifier: Apache-2.0
// BF16 weights: a panel is a stack of weight tiles as it lies in memory.
#include "kernels/cpu/gemm/amx/block.h"

namespace dunlin::kernels::cpu::amx {
namespace {

struct Bf16Panels {
  static constexpr size_t kStepBytes = amx::kStepBytes;
  static constexpr int64_t kPrefetchBytes = 4 * static_cast<int64_t>(amx::kStepBytes);

  DUNLIN_INLINE const std::byte* Dense(const std::byte* panel, int64_t first_k, int64_t depth, std::byte*) {
    const std::byte* dense = panel + static_cast<size_t>(first_k) / 2 * kPairRowBytes;
    if (depth == kTileDepth) {  // step by step, for few rows: memory is faster than tile loads alone request lines
#pragma GCC unroll 4
      for (size_t line = 0; line < kStepBytes; line += 64) _mm_prefetch(dense + line + kPrefetchBytes, _MM_HINT_T0);
    }
    return dense;
  }
};

}  // namespace

void GemmBf16(const GemmBlock& block) {
  GemmBlockOf<Bf16Panels>(block);
}

}  // namespace dunlin::kernels::cpu::amx
