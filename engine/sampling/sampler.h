// Draws one token from one row of FP32 logits, and scores prompt tokens. Pure functions of their input: a draw reads a
// counter-based generator at (seed, output index, position), so a sequence has no sampler state to save or to lose.
//
// Order, vLLM v1's: check the row; log probabilities of the raw row; logit_bias, penalties, min_tokens and token masks;
// then greedy (argmax, lowest id on ties) when temperature is 0, else temperature, min_p, top_k, top_p and the draw.
// Thread rule: one instance per engine thread. Its scratch, 12 bytes per token, is held from the start.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sampling/logit_edits.h"
#include "engine/sampling/truncation.h"
#include "engine/types.h"

namespace dunlin::engine {

class Sampler {
 public:
  // vocab_size: length of every row, > 0. eos_token_ids: all of the model's; min_tokens keeps them from being drawn.
  Sampler(int32_t vocab_size, std::vector<TokenId> eos_token_ids);

  // Draws a token. False, leaving *out unspecified, when the row holds NaN or +infinity, or when the edits leave no
  // token with a finite logit. out->logprob and out->top are filled when sampling->logprobs >= 0, num_top is 0
  // otherwise. Does not allocate.
  [[nodiscard]] bool Sample(const SampleInput& input, TokenOutput* out);

  // Scores a given token against a raw row: its log probability and those of the num_top most likely. False as above.
  [[nodiscard]] bool Score(const float* logits, TokenId token_id, int32_t num_top, TokenOutput* out) const;

 private:
  TokenId Draw(const SampleInput& input, const float* logits, float max);
  // The token at which the running sum of weights_, in order of id, passes uniform * their sum.
  TokenId PickAt(double uniform);

  int32_t vocab_size_;
  LogitEdits edits_;
  Truncation truncation_;
  std::vector<float> edited_;       // [vocab_size] the row after the edits
  std::vector<float> weights_;      // [vocab_size] unnormalised probabilities
  std::vector<double> block_sums_;  // [ceil(vocab_size / kBlock)] of weights_
};

}  // namespace dunlin::engine
