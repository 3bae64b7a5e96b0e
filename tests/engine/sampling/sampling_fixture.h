// Rows and requests for the sampling tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "engine/sampling/sampler.h"

namespace dunlin::engine {

// A request with its tokens, so that a SampleInput has something to point at.
struct SampleCase {
  SamplingParams sampling;
  StoppingParams stopping;
  std::vector<TokenId> tokens = {0};
  int32_t prompt_len = 1;
  int32_t output_index = 0;

  SampleInput Input(const std::vector<float>& logits) const {
    SampleInput input;
    input.logits = logits.data();
    input.sampling = &sampling;
    input.stopping = &stopping;
    input.tokens = tokens.data();
    input.num_tokens = static_cast<int32_t>(tokens.size());
    input.prompt_len = prompt_len;
    input.output_index = output_index;
    return input;
  }
};

inline std::vector<float> RandomLogits(int32_t vocab_size, float scale, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> logits(static_cast<size_t>(vocab_size));
  for (float& x : logits) x = normal(generator);
  return logits;
}

}  // namespace dunlin::engine
