// SPDX-License-Identifier: Apache-2.0
// Arithmetic on single logits, shared by the sampling of all devices so that they agree bit for bit; constexpr, so that
// device code may call it too. Source of the penalties and their order: vLLM v1's sampler.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/api/sampling.h"

namespace dunlin::kernels {

// Flag in the count of a token that occurs in the prompt; above any count, as contexts are shorter than 2^30 tokens.
inline constexpr int32_t kInPrompt = 1 << 30;

// A draw sums the weights in blocks of this many tokens: four interleaved FP64 chains per block (id % 4), joined as
// (0 + 1) + (2 + 3), blocks in ascending order. A draw then searches vocab_size / 256 + 256 values.
inline constexpr int32_t kWeightBlock = 256;

// repetition_penalty r, tokens of prompt and output: x = x > 0 ? x / r : x * r, cut to finite values, because a tiny r
// is a client's wish and not a fault of the model. frequency_penalty f: x -= f * (times in the output).
// presence_penalty p: x -= p if in the output.
constexpr float Penalized(float x, int32_t count_and_flag, const SampleRow& row) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const int32_t count = count_and_flag & (kInPrompt - 1);
  if (x > 0.0F) {
    x /= row.repetition_penalty;
    if (x > kMax) x = kMax;
  } else if (x >= -kMax) {
    x *= row.repetition_penalty;
    if (x < -kMax) x = -kMax;
  }
  x -= row.frequency_penalty * static_cast<float>(count);
  return count > 0 ? x - row.presence_penalty : x;
}

// Maps floats to unsigned integers of the same order. Adding zero turns -0 into +0, which compare equal.
constexpr uint32_t KeyOfLogit(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

// Whether the mask of EditLists allows a token.
constexpr bool Allows(const uint32_t* mask, int32_t id) {
  return (mask[id / 32] >> (id % 32) & 1U) != 0;
}

}  // namespace dunlin::kernels
