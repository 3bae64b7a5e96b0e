// What changes logits before a token is drawn: bias, penalties, and the masks. Each edit is computed from the request
// and its tokens alone, every time, so there is no state that a preemption or a neighbour could disturb.
// Source of the formulas and of their order: vLLM v1's sampler (min_tokens and logit_bias are independent of it:
// a mask is -infinity wherever it comes).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/types.h"

namespace dunlin::engine {

// One row to draw from. Pointers are borrowed for the call.
struct SampleInput {
  const float* logits = nullptr;  // [vocab_size], host memory, never written
  const SamplingParams* sampling = nullptr;
  const StoppingParams* stopping = nullptr;
  const TokenId* tokens = nullptr;  // [num_tokens]: prompt, then output so far; ids in [0, vocab_size)
  int32_t num_tokens = 0;           // also the position of the token to draw
  int32_t prompt_len = 0;           // <= num_tokens
  int32_t output_index = 0;
  // Bit i % 32 of word i / 32 says whether token i may be drawn; ceil(vocab_size / 32) words; null allows all.
  const uint32_t* allowed_tokens = nullptr;

  int32_t num_output() const { return num_tokens - prompt_len; }
};

// Applies the edits of a request to a row, in this order:
//   logit_bias: x += bias.
//   repetition_penalty r, tokens of prompt and output: x = x > 0 ? x / r : x * r.
//   frequency_penalty f: x -= f * (times in the output). presence_penalty p: x -= p if in the output.
//   min_tokens: until the output has that many, stop_token_ids and (unless ignore_eos) end-of-sequence ids get -inf.
//   allowed_tokens: every other token gets -inf.
// One instance per engine thread: it owns scratch of vocab_size counts, zero between calls.
class LogitEdits {
 public:
  LogitEdits(int32_t vocab_size, std::vector<TokenId> eos_token_ids);

  // Whether Apply would change anything; if not, the caller need not copy the row.
  bool Needed(const SampleInput& input) const;
  // Edits row [vocab_size] in place. Does not allocate.
  void Apply(const SampleInput& input, float* row);

 private:
  void ApplyPenalties(const SampleInput& input, float* row);
  void MaskStopTokens(const StoppingParams& stopping, float* row) const;

  int32_t vocab_size_;
  std::vector<TokenId> eos_token_ids_;
  std::vector<int32_t> counts_;  // [vocab_size] times in the output, + kInPrompt; all zero between calls
};

}  // namespace dunlin::engine
