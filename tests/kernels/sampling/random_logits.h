// SPDX-License-Identifier: Apache-2.0
// Rows of logits for the sampling tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace dunlin::kernels {

inline std::vector<float> RandomLogits(int32_t vocab_size, float scale, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  for (float& x : logits) x = normal(generator);
  return logits;
}

}  // namespace dunlin::kernels
