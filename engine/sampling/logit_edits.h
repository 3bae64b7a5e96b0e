// What a request changes of its logits, as the lists that a device reads (kernels/api/sampling.h). They are written
// from the request and its tokens alone, every time, so there is no state that a preemption or a neighbour could
// disturb. Source of the formulas and of their order: vLLM v1's sampler (min_tokens and logit_bias are independent of
// it: a mask is -infinity wherever it comes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/types.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// What one draw is made of, beside its logits. Pointers are borrowed for the call.
struct SampleInput {
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

// The most words that the lists of one row take.
size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids);

// Writes the lists of a request, which are applied in this order:
//   logit_bias; then the penalties over every token of prompt and output; then, until the output has min_tokens,
//   stop_token_ids and (unless ignore_eos) end-of-sequence ids are banned; then allowed_tokens is the mask.
// One instance per engine thread: it owns scratch of vocab_size counts, zero between calls.
class LogitEdits {
 public:
  LogitEdits(int32_t vocab_size, std::vector<TokenId> eos_token_ids);

  // Words that Write needs at most; 0 when the row stays as it is.
  size_t MaxWords(const SampleInput& input) const;
  // Writes to words[first_word, first_word + MaxWords(input)). Does not allocate.
  kernels::EditLists Write(const SampleInput& input, uint32_t* words, size_t first_word);

 private:
  int32_t WriteCounts(const SampleInput& input, uint32_t* word);
  int32_t WriteBanned(const StoppingParams& stopping, uint32_t* word) const;

  int32_t vocab_size_;
  std::vector<TokenId> eos_token_ids_;
  std::vector<int32_t> counts_;  // [vocab_size] times in the output, + kInPrompt; all zero between calls
};

// The row of a draw.
kernels::SampleRow DrawRow(const SampleInput& input, const kernels::EditLists& edits);
// The row that scores a prompt token.
kernels::SampleRow ScoreRow(TokenId token, int32_t logprobs);

}  // namespace dunlin::engine
