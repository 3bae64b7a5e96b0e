// SPDX-License-Identifier: Apache-2.0
// Reads goldens.json; its format stands at the head of tests/golden/models/make_goldens.py.
#pragma once

#include <string>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

struct GoldenLogits {
  int32_t position;
  std::vector<float> values;  // [vocab_size]
};

struct GoldenPrompt {
  std::vector<TokenId> tokens;
  std::vector<GoldenLogits> logits;
  // Of each recurrent layer, after the prompt: the rows before its convolution, then the matrices of its heads,
  // [value_heads, key_dim, value_dim]; where the file has them.
  std::vector<std::vector<float>> states;
  std::vector<GoldenLogits> own_logits;  // with rounded inputs of every product; where the file has them
  std::vector<TokenId> greedy_tokens;    // 64; end-of-sequence is not special
  std::vector<float> greedy_gaps;        // the reference's top-2 logit gap at each step
};

// The largest difference of two rows; infinity where they differ in length, NaN where one holds it.
float LargestError(const std::vector<float>& logits, const std::vector<float>& golden);

std::vector<GoldenPrompt> ReadGoldens(const std::string& model_path);

}  // namespace dunlin::engine
