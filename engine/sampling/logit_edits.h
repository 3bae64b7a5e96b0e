// SPDX-License-Identifier: Apache-2.0
// What a request changes of its logits, as the lists that a device reads (kernels/api/sampling.h). The lists are built
// anew for every draw from the request and its tokens alone, so there is no state that a preemption or a neighbour
// could disturb. Source of the formulas and of their order: vLLM v1's sampler (the order of banned tokens, logit_bias
// and the mask does not matter: -infinity stays -infinity).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/types.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// The edits of one draw, in the order in which they are applied. Borrowed for the call; ids are in [0, vocab_size).
struct LogitEditInput {
  std::span<const std::pair<TokenId, float>> biases;
  // Prompt, then output so far, for the penalties; empty where there is none.
  std::span<const TokenId> history;
  int32_t prompt_len = 0;  // of history
  std::span<const TokenId> banned;
  // Bit i % 32 of word i / 32 says whether token i may be drawn; kernels::MaskWords(vocab_size) words; empty allows
  // all.
  std::span<const uint32_t> mask;
};

// The most words that the lists of one row take.
size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids);

// Writes the lists of a draw. Thread rule: one instance per engine thread, because it owns scratch of vocab_size
// counts.
class LogitEdits {
 public:
  explicit LogitEdits(int32_t vocab_size);

  // Words that Write needs at most; 0 when the row stays as it is.
  size_t MaxWords(const LogitEditInput& input) const;
  // Writes to words[first_word, first_word + MaxWords(input)). Does not allocate.
  kernels::EditLists Write(const LogitEditInput& input, uint32_t* words, size_t first_word);

 private:
  int32_t WriteCounts(const LogitEditInput& input, uint32_t* word);

  int32_t vocab_size_;
  std::vector<int32_t> counts_;  // [vocab_size] times in the output, + kInPrompt; all zero between calls
};

}  // namespace dunlin::engine
