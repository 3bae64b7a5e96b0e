// SPDX-License-Identifier: Apache-2.0
// What every aarch64 has: four floats at a time, multiplied and then added, or fused.
#include <arm_neon.h>

#include "kernels/cpu/roofs/vector_loops.h"

namespace dunlin::kernels::cpu {
namespace {

struct Vectors {
  using Floats = float __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16), may_alias));
};

}  // namespace

// Four FMAs a cycle with a latency of 4 cycles (Neoverse V1): 16 chains are enough, and 24 fit the 32 registers.
float NeonRounds(int64_t rounds) {
  return RunChains<Vectors, 24>(rounds, [](auto sum) { return sum * 0.999F + 0.001F; });
}
float NeonFmaRounds(int64_t rounds) {
  const float32x4_t factor = vdupq_n_f32(0.999F);
  const float32x4_t term = vdupq_n_f32(0.001F);
  return RunChains<Vectors, 24>(rounds, [&](float32x4_t sum) { return vfmaq_f32(term, sum, factor); });
}
uint64_t NeonRead(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  return ReadAll<Vectors>(data, bytes, prefetch_ahead);
}

}  // namespace dunlin::kernels::cpu
