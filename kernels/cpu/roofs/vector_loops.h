// SPDX-License-Identifier: Apache-2.0
// The loops of loops.h over the vector types of an instruction set, Floats and Words (uint64_t). Included by the
// translation units of the instruction sets only; in an anonymous namespace, so that no instantiation is shared between
// them.
#pragma once

#include "kernels/cpu/roofs/loops.h"

namespace dunlin::kernels::cpu {
namespace {

// kChains independent chains of sum = step(sum), sum a vector of floats.
template <typename Vectors, int kChains, typename Step>
float RunChains(int64_t rounds, const Step& step) {
  using Floats = typename Vectors::Floats;
  Floats sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Floats{} + static_cast<float>(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) sums[i] = step(sums[i]);
  }
  Floats total{};
  for (const Floats& sum : sums) total += sum;
  float result = 0.0F;
  for (size_t lane = 0; lane < sizeof(Floats) / sizeof(float); ++lane) result += total[lane];
  return result;
}

// Contract: ReadLoop.
template <typename Vectors>
uint64_t ReadAll(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  using Words = typename Vectors::Words;
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
  uint64_t result = 0;
  for (size_t lane = 0; lane < sizeof(Words) / sizeof(uint64_t); ++lane) result |= total[lane];
  return result;
}

}  // namespace
}  // namespace dunlin::kernels::cpu
