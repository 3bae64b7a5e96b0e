// SPDX-License-Identifier: Apache-2.0
// What every x86-64 has: multiply, then add, four floats at a time.
#include "kernels/cpu/roofs/vector_loops.h"

namespace dunlin::kernels::cpu {
namespace {

struct Vectors {
  using Floats = float __attribute__((vector_size(16)));
  using Words = uint64_t __attribute__((vector_size(16), may_alias));
};

}  // namespace

// 8 chains hide the latency of a multiply and an add; 12 fit the 16 registers with two factors.
float Sse2Rounds(int64_t rounds) {
  return RunChains<Vectors, 12>(rounds, [](auto sum) { return sum * 0.999F + 0.001F; });
}
uint64_t Sse2Read(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  return ReadAll<Vectors>(data, bytes, prefetch_ahead);
}

}  // namespace dunlin::kernels::cpu
