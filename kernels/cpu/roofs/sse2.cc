// What every x86-64 has: multiply, then add, four floats at a time. GCC's vector types, because they need no flags.
#include "kernels/cpu/roofs/loops.h"

namespace dunlin::kernels::cpu {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Words = uint64_t __attribute__((vector_size(16), may_alias));

constexpr int kChains = 12;  // 8 hide the latency of a multiply and an add; 12 fit the 16 registers with two factors

}  // namespace

float Sse2Rounds(int64_t rounds) {
  Floats sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Floats{} + static_cast<float>(i);
  const Floats factor = Floats{} + 0.999F;
  const Floats term = Floats{} + 0.001F;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + term;
  }
  Floats total{};
  for (const Floats& sum : sums) total += sum;
  return total[0] + total[1] + total[2] + total[3];
}

uint64_t Sse2Read(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  constexpr size_t kWords = kReadUnit / sizeof(Words);
  Words sums[4] = {};
  for (size_t at = 0; at < bytes; at += kReadUnit) {
    const auto* words = reinterpret_cast<const Words*>(data + at);
    for (size_t line = 0; prefetch_ahead > 0 && line < kReadUnit; line += 64) {
      __builtin_prefetch(data + at + prefetch_ahead + line);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kWords; ++i) sums[i % 4] |= words[i];
  }
  const Words total = (sums[0] | sums[1]) | (sums[2] | sums[3]);
  return total[0] | total[1];
}

}  // namespace dunlin::kernels::cpu
