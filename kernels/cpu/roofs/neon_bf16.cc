// SPDX-License-Identifier: Apache-2.0
// The BF16 matrix product: two rows by two columns, four products for each of the four sums.
#include <arm_neon.h>

#include "kernels/cpu/roofs/vector_loops.h"

namespace dunlin::kernels::cpu {
namespace {

struct Vectors {
  using Floats = float __attribute__((vector_size(16)));
};

}  // namespace

float NeonBf16Rounds(int64_t rounds) {
  const bfloat16x8_t small = vreinterpretq_bf16_u32(vdupq_n_u32(0xBC003C00));   // 0.0078125, -0.0078125
  const bfloat16x8_t others = vreinterpretq_bf16_u32(vdupq_n_u32(0x3F003F80));  // 1.0, 0.5
  return RunChains<Vectors, 24>(rounds, [&](float32x4_t sum) { return vbfmmlaq_f32(sum, small, others); });
}

}  // namespace dunlin::kernels::cpu
