// SPDX-License-Identifier: Apache-2.0
// What a request changes of its logits, as the lists that a device reads (kernels/api/sampling.h), written for every
// draw from the request and the counts of its tokens (token_counts.h). Pure functions, any thread. Source of the
// formulas and of their order: vLLM v1's sampler (the order of banned tokens, logit_bias and the mask does not matter:
// -infinity stays -infinity).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "engine/request/types.h"
#include "engine/sampling/token_counts.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// The edits of one draw, in the order in which they are applied. Borrowed for the call; ids are in [0, vocab_size).
struct LogitEditInput {
  std::span<const std::pair<TokenId, float>> biases;
  std::span<const TokenCount> counts;    // for the penalties; empty where there is none
  std::span<const TokenId> drafts = {};  // output that counts lacks; read where counts has any
  std::span<const TokenId> banned;
  // Bit i % 32 of word i / 32 says whether token i may be drawn; kernels::MaskWords(vocab_size) words; empty allows
  // all. A token has to be in both.
  std::span<const uint32_t> mask;     // of allowed_token_ids
  std::span<const uint32_t> grammar;  // of the constraint
};

// The most words that the lists of one row take.
size_t MaxEditWords(int32_t vocab_size, int32_t max_context_tokens, size_t num_eos_token_ids);

// Words that WriteEdits writes; 0 when the row stays as it is.
size_t NumEditWords(const LogitEditInput& input);
// Writes the lists of a draw to words[first_word, first_word + NumEditWords(input)). Does not allocate.
kernels::EditLists WriteEdits(const LogitEditInput& input, uint32_t* words, size_t first_word);

}  // namespace dunlin::engine
